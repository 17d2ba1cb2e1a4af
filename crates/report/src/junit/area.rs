//! What a reason is about: the test cases of a report for CI systems.

use model::Reason;
use verdict::baseline::Region;

/// One question that was asked of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Area {
    /// Is everything there, and is it what it claims to be?
    Sanity,
    Network,
    Floors,
    /// A region beside the reference; none for single sizes and for whether there is one at all.
    Reference(Option<Region>),
    /// A region beside the baseline; none for single sizes and for the setup.
    Baseline(Option<Region>),
    /// The levels of many runs.
    History,
}

impl Area {
    /// The name of its test case.
    pub fn name(self) -> String {
        let of = |what: &str, region: Option<Region>| match region {
            Some(Region::Plateau) => format!("{what}: plateau"),
            Some(Region::Slope) => format!("{what}: slope"),
            Some(Region::Latency) => format!("{what}: latency"),
            None => what.to_owned(),
        };
        match self {
            Self::Sanity => "sanity".to_owned(),
            Self::Network => "network".to_owned(),
            Self::Floors => "floors".to_owned(),
            Self::Reference(region) => of("reference", region),
            Self::Baseline(region) => of("baseline", region),
            Self::History => "history".to_owned(),
        }
    }

    /// What a reason is about. Whatever is not about speed is about sanity.
    pub fn of(reason: &Reason) -> Self {
        // Behind the name of a log, where there is one.
        let region = || {
            Region::ALL.into_iter().find(|region| {
                let words = region.words();
                reason.text.starts_with(words) || reason.text.contains(&format!(": {words}"))
            })
        };
        let says = |words: &str| reason.text.contains(words);
        match reason.code.as_str() {
            "RIGHT_NETWORK" | "WRONG_NETWORK" | "NETWORK_UNKNOWN" => Self::Network,
            "ABOVE_FLOOR" | "BELOW_FLOOR" => Self::Floors,
            "AS_REFERENCE" | "NO_REFERENCE" => Self::Reference(None),
            "BELOW_REFERENCE" => Self::Reference(region()),
            "AS_BASELINE" | "OTHER_FINGERPRINT" | "SETUP_CHANGED" | "UNSTABLE_BASELINE"
            | "OUTLIERS_LEFT_OUT" => Self::Baseline(None),
            "BELOW_BASELINE" => Self::Baseline(region()),
            "DRIFTED" => Self::History,
            "DIP" | "NOT_MEASURED" if says("the reference's") => Self::Reference(None),
            "DIP" => Self::Baseline(None),
            "NOT_MEASURED" if says("the baseline's") => Self::Baseline(None),
            "NOT_MEASURED" => Self::Floors,
            _ => Self::Sanity,
        }
    }

    /// A reason that says that nothing was compared.
    pub fn refuses(reason: &Reason) -> bool {
        matches!(reason.code.as_str(), "NO_REFERENCE" | "OTHER_FINGERPRINT" | "UNSTABLE_BASELINE")
    }

    /// Of the same kind: what was held against the one was held against the other.
    pub fn goes_with(self, other: Self) -> bool {
        let kind = |area: Self| match area {
            Self::Sanity => 0,
            Self::Network => 1,
            Self::Floors => 2,
            Self::Reference(_) => 3,
            Self::Baseline(_) | Self::History => 4,
        };
        kind(self) == kind(other)
    }
}
