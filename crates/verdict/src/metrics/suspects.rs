//! Suspects from metrics and findings below the scope of the whole cluster.

use std::collections::BTreeMap;

use model::{measurement::Reading, metric::Subject};

use crate::locate::Suspect;

use super::position::{SubjectPosition, owned};

/// A metric or finding that is evidence against a subject.
pub(super) struct Evidence {
    pub subject: Subject,
    /// Name of the metric or code of the finding.
    pub what: String,
    /// Confidence that the subject itself is bad, 0 to 1.
    pub strength: f64,
}

/// One suspect for each GPU, link, node or rank with evidence against it, highest confidence first. Independent metrics add confidence.
pub(super) fn suspects(evidence: Vec<Evidence>, reading: &Reading) -> Vec<Suspect> {
    let mut accused: BTreeMap<Subject, BTreeMap<String, f64>> = BTreeMap::new();
    for Evidence { subject, what, strength } in evidence {
        if subject.is_unknown() {
            continue;
        }
        let known = accused.entry(owned(&subject)).or_default().entry(what).or_default();
        *known = known.max(strength);
    }
    let suspect = |(subject, evidence): (Subject, BTreeMap<String, f64>)| {
        let doubt: f64 = evidence.values().map(|strength| 1.0 - strength).product();
        let taken = reading.evidence.iter().flat_map(|node| &node.gpus).map(|gpu| &gpu.subject);
        let device = reading
            .gpus
            .iter()
            .map(|gpu| &gpu.subject)
            .chain(taken)
            .find(|known| SubjectPosition::of(known) == SubjectPosition::of(&subject).without_link());
        let of = |field: fn(&Subject) -> Option<&std::sync::Arc<str>>| {
            device.and_then(field).or_else(|| field(&subject)).map(|text| text.to_string())
        };
        Suspect {
            rank: subject.rank,
            host: subject.node.as_ref().map(ToString::to_string),
            gpu: subject.gpu,
            link: subject.link.as_ref().map(ToString::to_string),
            serial: of(|subject| subject.serial.as_ref()),
            bus_id: of(|subject| subject.bus_id.as_ref()),
            evidence: evidence.into_keys().collect(),
            confidence: 1.0 - doubt,
        }
    };
    let mut suspects: Vec<_> = accused.into_iter().map(suspect).collect();
    suspects.sort_by(|a, b| b.confidence.total_cmp(&a.confidence));
    suspects
}
