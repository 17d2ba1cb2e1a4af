//! Tags that identify Burnin's builds.
//!
//! Cloud Build permits letters, digits, `_`, `.` and `-`, at most 128 characters. A key has at most 100 such
//! characters, so every key is a valid tag.

use crate::BuildKey;
use google_cloud_build_v1::model::Build;

/// Prefix reserved for Burnin's tags.
pub const OURS: &str = "burnin.";

/// Tag of all builds of this key, for lists.
pub fn key_tag(key: &BuildKey) -> String {
    format!("{OURS}{key}")
}

/// All tags of a claim's build: key, run and claim.
pub fn all(key: &BuildKey, claim: u32) -> [String; 3] {
    [key_tag(key), format!("{OURS}run.{}", key.command().run), format!("{OURS}claim.{claim}")]
}

/// Key and claim of a build; `None` if Burnin did not create it.
pub fn owner(build: &Build) -> Option<(BuildKey, u32)> {
    let mut ours = build.tags.iter().filter_map(|tag| tag.strip_prefix(OURS));
    let claim = ours.clone().find_map(|tag| tag.strip_prefix("claim.")?.parse().ok())?;
    Some((ours.find_map(|tag| tag.parse().ok())?, claim))
}

/// Whether Cloud Build accepts this tag.
pub fn legal(tag: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= 128
        && tag.bytes().next().is_some_and(letter)
        && tag.bytes().all(|byte| letter(byte) || matches!(byte, b'.' | b'-'))
}

#[cfg(test)]
mod tests {
    use ::model::{Attempt, CommandId, RunId, Stage, Verb};

    use super::*;

    #[test]
    fn every_key_is_a_valid_tag_and_round_trips() {
        let longest = "r".repeat(RunId::MAX_LEN);
        for run in ["a", "nightly-a3-7f", "run", "claim", longest.as_str()] {
            for stage in Stage::ALL {
                let id = CommandId {
                    run: run.parse().unwrap(),
                    stage,
                    attempt: Attempt::new(u32::from(u16::MAX)),
                    verb: Verb::Start,
                };
                for key in [BuildKey::of(&id), BuildKey::numbered(&id, "destroy", 4_000_000_000)] {
                    let tags = all(&key, 7);
                    assert!(tags.iter().all(|tag| legal(tag)), "{tags:?}");
                    for turned in [tags.clone(), {
                        let [a, b, c] = tags;
                        [c, b, a]
                    }] {
                        let build = Build::new().set_tags(turned.into_iter().chain(["theirs".to_owned()]));
                        assert_eq!(owner(&build), Some((key.clone(), 7)));
                    }
                }
            }
        }
    }

    #[test]
    fn builds_that_burnin_did_not_create_have_no_owner() {
        for tags in [vec![], vec!["nightly"], vec!["burnin.claim.1"], vec!["burnin.run.r", "burnin.claim.1"]]
        {
            assert_eq!(owner(&Build::new().set_tags(tags.clone())), None, "{tags:?}");
        }
    }

    #[test]
    fn tags_follow_cloud_builds_rules() {
        for (tag, expected) in
            [("a", true), ("_A.b-1", true), ("", false), ("-a", false), ("a b", false), ("é", false)]
        {
            assert_eq!(legal(tag), expected, "{tag}");
        }
        assert!(!legal(&"a".repeat(129)));
    }
}
