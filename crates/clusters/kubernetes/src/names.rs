//! Names, labels and annotations of a job's objects.

use ledger::Digest;

/// Name of the replicated job; pod names are `{jobset}-{this}-0-{index}-{random}`. With named nodes each node has its own
/// replicated job with a number in its name: pod names are `{jobset}-{this}{number}-0-0-{random}`.
pub const REPLICATED: &str = "n";
/// Name of the container that runs the benchmark.
pub const CONTAINER: &str = "benchmark";
/// Annotation with the full job name: an object without it belongs to another owner.
pub const JOB: &str = "burnin.dev/job";
/// Annotation of a JobSet that only reserves its name.
pub const FENCE: &str = "burnin.dev/cancelled";
/// Annotation of a JobSet whose pods need ssh keys.
pub const SSH: &str = "burnin.dev/ssh";
/// Label of all objects of a job.
pub const LABEL: &str = "burnin-job";
/// Maximum length of a JobSet name: its pod names must be DNS names.
const LONGEST: usize = 44;

/// JobSet name of a job. A long name is cut and gets a digest as suffix.
pub fn name(job: &str) -> String {
    let clean: String = job
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' })
        .collect();
    let starts = clean.starts_with(|first: char| first.is_ascii_lowercase());
    if clean == job && starts && clean.len() <= LONGEST && !clean.ends_with('-') {
        return clean;
    }
    let kept: String = clean.chars().take(LONGEST - 11).collect();
    format!("j-{}-{}", kept.trim_matches('-'), &Digest::of(job.as_bytes()).sha256[..8])
}
