/// A line of evidence with its number in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EvidenceLine {
    pub number: u64,
    pub text: String,
}
