//! Configured executor of builds.

use std::{path::PathBuf, str::FromStr, sync::Arc};

use ledger::Store;
use service::{Clock, config::VariableReader};

use crate::cloud_build::{CloudBuilds, client::CloudBuildClient, submissions::Timing};

/// A service account, `projects/PROJECT/serviceAccounts/EMAIL`: the form that the API accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildAccount(pub String);

impl FromStr for BuildAccount {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let email = text.strip_prefix("projects/").and_then(|rest| rest.split_once("/serviceAccounts/"));
        match email {
            Some((project, email))
                if !project.is_empty() && !project.contains('/') && email.contains('@') =>
            {
                Ok(Self(text.to_owned()))
            }
            _ => Err("expected projects/PROJECT/serviceAccounts/EMAIL"),
        }
    }
}

/// Executor of builds, as the service is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildLocation {
    /// This host, under this folder.
    Here(PathBuf),
    /// Cloud Build, in one project and region.
    CloudBuild {
        /// Google Cloud project of the builds.
        project: String,
        /// The region, or `global`.
        location: String,
    },
}

impl FromStr for BuildLocation {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.starts_with('/') {
            return Ok(Self::Here(text.into()));
        }
        let place = text.strip_prefix("cloud-build:").ok_or(
            "expected the absolute path of a folder (builds on this host) or cloud-build:PROJECT/LOCATION",
        )?;
        // Project and location become parts of paths.
        let word = |part: &str, also: &[u8]| {
            part.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase())
                && part.bytes().all(|byte| {
                    byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || also.contains(&byte)
                })
        };
        match place.split_once('/') {
            Some((project, _)) if !word(project, b".:") => {
                Err("in cloud-build:PROJECT/LOCATION, PROJECT is a project's id, not its number or its title")
            }
            Some((project, location)) if word(location, b"") => {
                Ok(Self::CloudBuild { project: project.to_owned(), location: location.to_owned() })
            }
            _ => Err("in cloud-build:PROJECT/LOCATION, LOCATION is a region such as us-central1, or global"),
        }
    }
}

/// Error message if builds run in Cloud Build and `BURNIN_ARTEFACTS` is not a bucket.
pub const NEEDS_A_BUCKET: &str =
    "BURNIN_ARTEFACTS: expected gs://NAME instead of a folder, because Cloud Build reads and writes a bucket";

/// Settings of builds in Cloud Build that only tests change.
#[derive(Clone, Debug, Default)]
pub struct CloudBuildSettings {
    /// Replaces the address of Cloud Build; `None`: Google's address.
    pub endpoint: Option<Endpoint>,
    /// Timeouts and intervals of submissions.
    pub timing: Timing,
}

impl CloudBuildSettings {
    /// Reads `BURNIN_CLOUD_BUILD_ENDPOINT` and `BURNIN_BUILD_SETTLE`; the reader collects the problems.
    pub fn read(env: &mut VariableReader) -> Option<Self> {
        let endpoint = env.optional("BURNIN_CLOUD_BUILD_ENDPOINT");
        let known = Timing::default();
        let settle = env.or("BURNIN_BUILD_SETTLE", known.settle);
        Some(Self { endpoint: endpoint?, timing: Timing { settle: settle?, ..known } })
    }
}

/// Builds in Cloud Build, in a project's location. `store` is the bucket named `bucket`.
pub fn cloud_build(
    (project, location): (&str, &str),
    settings: CloudBuildSettings,
    bucket: &str,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
) -> CloudBuilds {
    let client = CloudBuildClient::new(project, location, settings.endpoint.map(|Endpoint(url)| url));
    CloudBuilds::new(client, store, bucket, clock, settings.timing)
}

/// URL of a server that replaces Google's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint(pub String);

impl FromStr for Endpoint {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let host = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
        match host {
            Some(host) if !host.is_empty() && !host.starts_with('/') => Ok(Self(text.to_owned())),
            _ => Err("expected a URL such as http://127.0.0.1:8090"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_for_unlisted_builds_can_be_shortened_for_tests() {
        let read = |variables: &[(&'static str, &'static str)]| {
            let mut env = VariableReader::new(variables.iter().copied());
            let settings = CloudBuildSettings::read(&mut env);
            env.finish(|| settings).unwrap().timing.settle
        };
        assert_eq!(read(&[]), model::Span::from_secs(120));
        assert_eq!(read(&[("BURNIN_BUILD_SETTLE", "5s")]), model::Span::from_secs(5));
    }

    #[test]
    fn builds_run_on_this_host_or_in_a_location_of_a_project() {
        assert_eq!("/var/builds".parse(), Ok(BuildLocation::Here("/var/builds".into())));
        for (project, location) in [("val-prod", "us-central1"), ("example.com:val", "global")] {
            let expected = BuildLocation::CloudBuild { project: project.into(), location: location.into() };
            assert_eq!(format!("cloud-build:{project}/{location}").parse(), Ok(expected));
        }
        for (wrong, hint) in [
            ("", "expected the absolute path"),
            ("builds", "expected the absolute path"),
            ("cloudbuild:p/l", "expected the absolute path"),
            ("cloud-build:", "LOCATION is"),
            ("cloud-build:p", "LOCATION is"),
            ("cloud-build:p/", "LOCATION is"),
            ("cloud-build:p/l/more", "LOCATION is"),
            ("cloud-build:p/US", "LOCATION is"),
            ("cloud-build:/l", "PROJECT is"),
            ("cloud-build:123456/l", "PROJECT is"),
            ("cloud-build:p q/l", "PROJECT is"),
        ] {
            let result = wrong.parse::<BuildLocation>();
            assert!(result.as_ref().is_err_and(|why| why.contains(hint)), "{wrong}: {result:?}");
        }
    }

    #[test]
    fn a_service_account_in_another_format_is_rejected() {
        let account = "projects/p/serviceAccounts/burnin-image-build@p.iam.gserviceaccount.com";
        assert_eq!(account.parse(), Ok(BuildAccount(account.to_owned())));
        for wrong in [
            "",
            "burnin@p.iam.gserviceaccount.com",
            "projects//serviceAccounts/a@b",
            "projects/p/serviceAccounts/",
        ] {
            assert!(wrong.parse::<BuildAccount>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_endpoint_is_a_url() {
        assert_eq!("http://127.0.0.1:1".parse(), Ok(Endpoint("http://127.0.0.1:1".to_owned())));
        for wrong in ["", "127.0.0.1:1", "http://", "http:///x"] {
            assert!(wrong.parse::<Endpoint>().is_err(), "{wrong}");
        }
    }
}
