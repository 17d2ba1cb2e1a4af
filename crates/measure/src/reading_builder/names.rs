//! Interned names and units of metrics.

use std::sync::Arc;

use crate::{metric_definition::MetricDefinition, text::same};

use super::{RECENT_TEXT, ReadingBuilder};

/// Ends a part of a name. This byte does not occur in UTF-8.
const END: u8 = 0xff;
/// Ends a unit. This byte does not occur in UTF-8.
const END_OF_UNIT: u8 = 0xfe;

/// Name and unit of a metric of the registry.
pub(super) struct RecentName {
    definition: &'static MetricDefinition,
    /// The parts of the name, each with its [`END`], and a unit other than that of the registry with its [`END_OF_UNIT`].
    parts: Box<[u8]>,
    pub(super) name: Arc<str>,
    pub(super) unit: Arc<str>,
}

impl RecentName {
    #[inline]
    pub(super) fn is(
        &self,
        definition: &'static MetricDefinition,
        parts: &[&str],
        unit: Option<&str>,
    ) -> bool {
        let mut rest = &*self.parts;
        let texts = parts.iter().map(|part| (*part, END)).chain(unit.map(|unit| (unit, END_OF_UNIT)));
        for (text, end) in texts {
            match rest.split_at_checked(text.len()) {
                Some((part, [byte, after @ ..])) if *byte == end && same(part, text.as_bytes()) => {
                    rest = after
                }
                _ => return false,
            }
        }
        rest.is_empty() && std::ptr::eq(self.definition, definition)
    }
}

/// Source of a metric's name.
#[derive(Clone, Copy)]
pub(super) enum NameSource {
    /// The parts replace the placeholders of the registry.
    Parts,
    /// The name is made from the only part.
    Made(fn(&str) -> String),
    /// The name and the unit are made from the only part.
    MadeWithUnit(fn(&str) -> (String, &'static str)),
}

impl ReadingBuilder {
    #[inline(never)]
    pub(super) fn make_name(
        &mut self,
        key: u64,
        definition: &'static MetricDefinition,
        kind: NameSource,
        parts: &[&str],
        unit: Option<&str>,
    ) -> (Arc<str>, Arc<str>) {
        // Count the memory of the registry's texts even if other texts replace them.
        let (mut name, mut shared) = (self.name(definition.name), self.name(definition.unit));
        let part = parts.first().copied().unwrap_or_default();
        match kind {
            NameSource::Made(make) => name = self.name(&make(part)),
            NameSource::MadeWithUnit(make) => {
                let (made, unit) = make(part);
                (name, shared) = (self.name(&made), self.name(unit));
            }
            NameSource::Parts if parts.is_empty() => {}
            NameSource::Parts => {
                let mut text = std::mem::take(&mut self.text);
                fill(&mut text, definition.name, parts);
                name = self.name(&text);
                self.text = text;
            }
        }
        if let Some(unit) = unit {
            shared = self.name(unit);
        }
        let length: usize = parts.iter().copied().chain(unit).map(|text| text.len() + 1).sum();
        if length <= RECENT_TEXT {
            let mut text = Vec::with_capacity(length);
            for part in parts {
                text.extend_from_slice(part.as_bytes());
                text.push(END);
            }
            if let Some(unit) = unit {
                text.extend_from_slice(unit.as_bytes());
                text.push(END_OF_UNIT);
            }
            let (name, unit) = (name.clone(), shared.clone());
            self.recent_names.insert(key, RecentName { definition, parts: text.into(), name, unit });
        }
        (name, shared)
    }
}

/// Replaces the placeholders in the name of a metric of the registry.
fn fill(name: &mut String, mut pattern: &str, parts: &[&str]) {
    name.clear();
    for part in parts {
        let Some((before, after)) = pattern.split_once('<') else { break };
        name.push_str(before);
        name.push_str(part);
        pattern = after.split_once('>').map_or("", |(_, after)| after);
    }
    name.push_str(pattern);
}

/// Continues the hash of texts.
#[inline]
pub(crate) fn hash(hash: u64, text: &[u8]) -> u64 {
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let hash = mix(hash, text.len() as u64);
    // The last bytes are read together, even if some of them were read before.
    if let Some(last) = text.last_chunk::<8>() {
        let (words, _) = text.as_chunks::<8>();
        let hash = words.iter().fold(hash, |hash, word| mix(hash, u64::from_le_bytes(*word)));
        mix(hash, u64::from_le_bytes(*last))
    } else if let (Some(first), Some(last)) = (text.first_chunk::<4>(), text.last_chunk::<4>()) {
        mix(hash, u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last)))
    } else {
        mix(hash, text.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)))
    }
}
