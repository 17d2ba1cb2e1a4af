//! Diagnoses and suspects, with the same texts in all forms.

use serde::Serialize;
use verdict::{Judgement, clues::ClueLine, diagnose::Diagnosis, locate::Suspect};

use crate::text;

/// Maximum number of listed hosts.
const HOSTS: usize = 16;
/// Maximum number of metrics and findings listed with a suspect.
const EVIDENCE: usize = 4;

/// A diagnosis. All text is unescaped.
#[derive(Clone, Debug, Serialize)]
pub struct DiagnosisText {
    pub cause: &'static str,
    /// Explanation of the diagnosis, and the next step.
    pub advice: String,
    pub hosts: Option<String>,
    pub lines: Vec<String>,
    /// Number of omitted lines of evidence.
    pub more: u64,
}

/// The first diagnoses with up to `lines` lines of evidence each, and the number of omitted diagnoses.
pub fn diagnoses(judgement: Option<&Judgement>, most: usize, lines: usize) -> (Vec<DiagnosisText>, usize) {
    let all = judgement.map_or(&[][..], |judgement| &judgement.diagnoses);
    (
        all.iter().take(most).map(|diagnosis| diagnosis_text(diagnosis, lines)).collect(),
        all.len().saturating_sub(most),
    )
}

fn diagnosis_text(diagnosis: &Diagnosis, lines: usize) -> DiagnosisText {
    let shown = diagnosis.evidence.len().min(lines);
    let more = diagnosis.hosts.len().saturating_sub(HOSTS);
    let mut hosts: Vec<_> =
        diagnosis.hosts.iter().take(HOSTS).map(|host| text::shortened(host, 64)).collect();
    hosts.extend((more > 0).then(|| format!("and {more} more")));
    DiagnosisText {
        cause: diagnosis.cause.as_str(),
        advice: diagnosis.text.clone(),
        hosts: (!hosts.is_empty()).then(|| hosts.join(", ")),
        lines: diagnosis.evidence[..shown].iter().map(clue_text).collect(),
        more: diagnosis.times.saturating_sub(shown as u64),
    }
}

/// `line 12: TEXT`, with the log's name if there are several logs.
fn clue_text(line: &ClueLine) -> String {
    let log = line.log.as_ref().map_or_else(String::new, |log| format!("{}, ", text::single_line(log)));
    format!("{log}line {}: {}", line.line, text::single_line(&line.text))
}

/// The first suspects with all their names and confidence, and the number of omitted suspects.
pub fn suspects(judgement: Option<&Judgement>, most: usize) -> (Vec<(String, f64)>, usize) {
    let all = judgement.map_or(&[][..], |judgement| &judgement.suspects);
    let shown = all.iter().take(most).map(|suspect| (name(suspect), suspect.confidence));
    (shown.collect(), all.len().saturating_sub(most))
}

fn name(suspect: &Suspect) -> String {
    let device = match (&suspect.bus_id, suspect.gpu) {
        (Some(bus_id), Some(gpu)) => Some(format!("GPU {gpu} ({bus_id})")),
        (Some(bus_id), None) => Some(format!("GPU {bus_id}")),
        (None, gpu) => gpu.map(|gpu| format!("GPU {gpu}")),
    };
    let parts = [
        suspect.rank.map(|rank| format!("rank {rank}")),
        device,
        suspect.link.as_ref().map(|link| format!("link {link}")),
        suspect.host.as_ref().map(|host| format!("node {host}")),
        suspect.serial.as_ref().map(|serial| format!("serial {serial}")),
    ];
    let named = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
    let evidence: Vec<_> = suspect.evidence.iter().take(EVIDENCE).map(String::as_str).collect();
    text::single_line(&if evidence.is_empty() { named } else { format!("{named}: {}", evidence.join(", ")) })
}
