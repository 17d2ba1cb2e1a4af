//! The checks to which reasons belong: the test cases of a CI report.

use model::Reason;
use verdict::baseline::Region;

/// One check of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CheckArea {
    /// The measurements are complete and consistent.
    Sanity,
    Network,
    Floors,
    /// A region compared with the reference; `None` for single sizes and for a missing reference.
    Reference(Option<Region>),
    /// A region compared with the baseline; `None` for single sizes and for the setup.
    Baseline(Option<Region>),
    /// Plateau levels over a history of runs.
    History,
}

impl CheckArea {
    /// Name of the check's test case.
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

    /// The check to which a reason belongs; `sanity` for reasons that do not concern performance.
    pub fn of(reason: &Reason) -> Self {
        // The name of a log may precede the name of the region.
        let region = || {
            Region::ALL.into_iter().find(|region| {
                let words = region.words();
                reason.text.starts_with(words) || reason.text.contains(&format!(": {words}"))
            })
        };
        let contains = |words: &str| reason.text.contains(words);
        match reason.code.as_str() {
            "RIGHT_NETWORK" | "WRONG_NETWORK" | "NETWORK_UNKNOWN" => Self::Network,
            "ABOVE_FLOOR" | "BELOW_FLOOR" => Self::Floors,
            "AS_REFERENCE" | "NO_REFERENCE" => Self::Reference(None),
            "BELOW_REFERENCE" => Self::Reference(region()),
            "AS_BASELINE" | "OTHER_FINGERPRINT" | "SETUP_CHANGED" | "UNSTABLE_BASELINE"
            | "OUTLIERS_LEFT_OUT" => Self::Baseline(None),
            "BELOW_BASELINE" => Self::Baseline(region()),
            "DRIFTED" => Self::History,
            "DIP" | "NOT_MEASURED" if contains("the reference's") => Self::Reference(None),
            "DIP" => Self::Baseline(None),
            "NOT_MEASURED" if contains("the baseline's") => Self::Baseline(None),
            "NOT_MEASURED" => Self::Floors,
            _ => Self::Sanity,
        }
    }

    /// Whether the reason reports that no values were compared.
    pub fn refuses(reason: &Reason) -> bool {
        matches!(reason.code.as_str(), "NO_REFERENCE" | "OTHER_FINGERPRINT" | "UNSTABLE_BASELINE")
    }

    /// Whether both checks use the same kind of reference.
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
