//! The tags by which a build is found again.
//!
//! Cloud Build allows letters, digits, `_`, `.` and `-`, at most 128 of them; a command's id without its verb is at most
//! 75 and made of nothing else, so that it is a tag as it is.

use google_cloud_build_v1::model::Build;
use terms::{CommandId, Verb};

/// What every tag of ours begins with, and nobody else's may.
pub const OURS: &str = "burnin.";

/// The tag of a command, whatever its verb.
pub fn command(id: &CommandId) -> String {
    format!("{OURS}{}.{}.{}", id.run, id.stage, id.attempt)
}

/// Every tag of a claim's build: its command, its run, its claim.
pub fn all(id: &CommandId, claim: u32) -> [String; 3] {
    [command(id), format!("{OURS}run.{}", id.run), format!("{OURS}claim.{claim}")]
}

/// Whose build this is, and of which claim; none where it is nobody's.
pub fn owner(build: &Build) -> Option<(CommandId, u32)> {
    let mut ours = build.tags.iter().filter_map(|tag| tag.strip_prefix(OURS));
    let claim = ours.clone().find_map(|tag| tag.strip_prefix("claim.")?.parse().ok())?;
    let id = ours.find_map(|tag| format!("{tag}.{}", Verb::Start.as_str()).parse().ok())?;
    Some((id, claim))
}

/// Whether Cloud Build would take this tag.
pub fn legal(tag: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= 128
        && tag.bytes().next().is_some_and(letter)
        && tag.bytes().all(|byte| letter(byte) || matches!(byte, b'.' | b'-'))
}

#[cfg(test)]
mod tests {
    use terms::{Attempt, RunId, Stage};

    use super::*;

    #[test]
    fn every_command_is_a_legal_tag_and_found_again() {
        let longest = "r".repeat(RunId::MAX_LEN);
        for run in ["a", "nightly-a3-7f", "run", "claim", longest.as_str()] {
            for stage in Stage::ALL {
                let id = CommandId {
                    run: run.parse().unwrap(),
                    stage,
                    attempt: Attempt(u32::from(u16::MAX)),
                    verb: Verb::Start,
                };
                let tags = all(&id, 7);
                assert!(tags.iter().all(|tag| legal(tag)), "{tags:?}");
                for turned in [tags.clone(), {
                    let [a, b, c] = tags;
                    [c, b, a]
                }] {
                    let build = Build::new().set_tags(turned.into_iter().chain(["theirs".to_owned()]));
                    assert_eq!(owner(&build), Some((id.clone(), 7)));
                }
            }
        }
    }

    #[test]
    fn somebody_elses_build_is_nobodys() {
        for tags in [vec![], vec!["nightly"], vec!["burnin.claim.1"], vec!["burnin.run.r", "burnin.claim.1"]]
        {
            assert_eq!(owner(&Build::new().set_tags(tags.clone())), None, "{tags:?}");
        }
    }

    #[test]
    fn what_cloud_build_takes_as_a_tag() {
        for (tag, expected) in
            [("a", true), ("_A.b-1", true), ("", false), ("-a", false), ("a b", false), ("é", false)]
        {
            assert_eq!(legal(tag), expected, "{tag}");
        }
        assert!(!legal(&"a".repeat(129)));
    }
}
