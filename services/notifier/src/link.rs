//! URL template of a run.

use std::str::FromStr;

use model::RunId;

/// A URL with `{run}` in it, such as `https://burnin.example/runs/{run}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunLink(String);

impl RunLink {
    pub fn of(&self, run: &RunId) -> String {
        self.0.replace("{run}", run.as_str())
    }
}

impl FromStr for RunLink {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let web = text.starts_with("https://") || text.starts_with("http://");
        // Refuses characters that end a link in Slack's markup or in Markdown.
        let plain = text.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>|()[]\"'`\\".contains(&byte));
        if web && plain && text.matches("{run}").count() == 1 {
            Ok(Self(text.to_owned()))
        } else {
            Err("expected a URL with {run} in it, such as https://burnin.example/runs/{run}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::RunLink;

    #[test]
    fn a_link_contains_the_run_id_and_an_invalid_template_is_refused() {
        let link: RunLink = "https://burnin.example/runs/{run}?from=mail".parse().unwrap();
        assert_eq!(link.of(&"w-1".parse().unwrap()), "https://burnin.example/runs/w-1?from=mail");
        for bad in [
            "burnin.example/{run}",
            "https://b.example/runs",
            "https://b.example/{run}|x>",
            "javascript:{run}",
        ] {
            assert!(bad.parse::<RunLink>().is_err(), "{bad}");
        }
    }
}
