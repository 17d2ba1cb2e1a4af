//! Environment of the measurement, with its differences from the baseline.

use serde::Serialize;

use crate::ReportInput;

/// Maximum number of fields shown.
const FIELDS: usize = 40;

/// A field of the fingerprint. All text is unescaped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Field<'a> {
    pub name: &'a str,
    pub value: &'a str,
    /// Value in the baseline, if different.
    pub was: Option<&'a str>,
}

/// All known fields, sorted by name.
pub fn fields<'a>(input: &ReportInput<'a>) -> Vec<Field<'a>> {
    let Some(judgement) = input.judgement else { return Vec::new() };
    let learned = input.standard.baseline.map(|baseline| &baseline.fingerprint);
    let fields = judgement.fingerprint.0.iter().take(FIELDS).map(|(name, value)| {
        let was = learned.and_then(|learned| learned.get(name)).filter(|was| was != value);
        Field { name, value, was }
    });
    fields.collect()
}
