//! What it was measured on, and what of that is not as the baseline had it.

use serde::Serialize;

use crate::Story;

/// Fields that are shown.
const FIELDS: usize = 40;

/// A field. All text is raw.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Field<'a> {
    pub name: &'a str,
    pub value: &'a str,
    /// Its value when the baseline was learned, where that was another.
    pub was: Option<&'a str>,
}

/// Every field that is known, in the order of names.
pub fn fields<'a>(story: &Story<'a>) -> Vec<Field<'a>> {
    let Some(judgement) = story.judgement else { return Vec::new() };
    let learned = story.standard.baseline.map(|baseline| &baseline.fingerprint);
    let fields = judgement.fingerprint.0.iter().take(FIELDS).map(|(name, value)| {
        let was = learned.and_then(|learned| learned.get(name)).filter(|was| was != value);
        Field { name, value, was }
    });
    fields.collect()
}
