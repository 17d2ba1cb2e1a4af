//! Meaning of a build's status, and results of a build.

use ::model::{Class, Failure};
use cloudbuild::BuildStatus;
use google_cloud_build_v1::model::{self, build::Status as Theirs};
use serde::Deserialize;

/// Converts a build's status. `None` for an unknown status: a known status will follow.
pub fn status(build: &model::Build) -> Option<BuildStatus> {
    Some(match &build.status {
        Theirs::Pending => BuildStatus::Pending,
        Theirs::Queued => BuildStatus::Queued,
        Theirs::Working => BuildStatus::Working,
        Theirs::Success => BuildStatus::Success,
        Theirs::Failure => BuildStatus::Failure,
        Theirs::InternalError => BuildStatus::InternalError,
        Theirs::Timeout => BuildStatus::Timeout,
        Theirs::Cancelled => BuildStatus::Cancelled,
        Theirs::Expired => BuildStatus::Expired,
        _ => return None,
    })
}

/// Failure class of a build that ended with this status.
pub fn class(status: BuildStatus) -> Class {
    match status {
        BuildStatus::InternalError | BuildStatus::Expired => Class::Infrastructure,
        BuildStatus::Cancelled => Class::Cancelled,
        _ => Class::Workload,
    }
}

/// Failure of a build: Cloud Build's message, the last lines of its log if readable, and the address of the
/// whole log.
pub fn failure(build: &model::Build, status: BuildStatus, last: &str) -> Failure {
    let detail = build.failure_info.as_ref().map(|info| info.detail.as_str()).unwrap_or_default();
    let why = [detail, build.status_detail.as_str(), "the build failed without a message"];
    let why = why.into_iter().find(|why| !why.is_empty()).unwrap_or_default();
    let mut message = why.to_owned();
    if !last.is_empty() {
        message = format!("{message}\n{last}");
    }
    for place in
        [log(build), (!build.log_url.is_empty()).then(|| build.log_url.clone())].into_iter().flatten()
    {
        message = format!("{message}\nthe whole log: {place}");
    }
    Failure::new(class(status), status.as_str(), message)
}

/// Address of a build's log, as `gs://bucket/object`; `None` if it is only in Cloud Logging.
pub fn log(build: &model::Build) -> Option<String> {
    let bucket = build.logs_bucket.trim_start_matches("gs://").trim_end_matches('/');
    (!bucket.is_empty()).then(|| format!("gs://{bucket}/log-{}.txt", build.id))
}

/// The pushed container image, as a reference by digest, and its digest. Tags can be moved, digests cannot.
pub fn pushed(build: &model::Build) -> Option<(String, String)> {
    let pushed = &build.results.as_ref()?.images;
    let first = build.images.first().or_else(|| build.artifacts.as_ref()?.images.first());
    let image = pushed.iter().find(|image| Some(&image.name) == first).or_else(|| pushed.first())?;
    let name = match image.name.rsplit_once('/') {
        Some((place, last)) => format!("{place}/{}", last.split([':', '@']).next().unwrap_or(last)),
        None => image.name.split([':', '@']).next().unwrap_or_default().to_owned(),
    };
    Some((format!("{name}@{}", image.digest), image.digest.clone()))
}

/// The files in a build's artifact manifest, as object names in `bucket`.
///
/// # Errors
/// Returns an error with the first line that is invalid or names another bucket.
pub fn artifacts(manifest: &[u8], bucket: &str) -> Result<Vec<String>, String> {
    #[derive(Deserialize)]
    struct StepLine {
        location: String,
    }
    let prefix = format!("gs://{bucket}/");
    let lines = serde_json::Deserializer::from_slice(manifest).into_iter::<StepLine>();
    lines
        .map(|line| {
            let StepLine { location } = line.map_err(|error| error.to_string())?;
            let object = location
                .strip_prefix(&prefix)
                .ok_or(format!("the artefact {location} is not in {prefix}"))?;
            // `gs://bucket/object#generation`
            Ok(object.rsplit_once('#').map_or(object, |(object, _)| object).to_owned())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn build(value: Value) -> model::Build {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn every_known_status_is_converted_and_others_are_pending() {
        for ours in BuildStatus::ALL {
            assert_eq!(status(&build(json!({"status": ours.as_str()}))), Some(ours));
        }
        for unknown in ["STATUS_UNKNOWN", "PAUSED_FOR_LUNCH"] {
            assert_eq!(status(&build(json!({ "status": unknown }))), None, "{unknown}");
        }
        assert_eq!(status(&build(json!({}))), None);
        let classes = [
            (BuildStatus::Failure, Class::Workload),
            (BuildStatus::Timeout, Class::Workload),
            (BuildStatus::InternalError, Class::Infrastructure),
            (BuildStatus::Expired, Class::Infrastructure),
            (BuildStatus::Cancelled, Class::Cancelled),
        ];
        for (status, expected) in classes {
            assert_eq!(class(status), expected, "{status}");
        }
    }

    #[test]
    fn an_image_is_identified_by_digest_rather_than_tag() {
        let digest = format!("sha256:{}", "ab".repeat(32));
        let other = format!("sha256:{}", "cd".repeat(32));
        let table = [
            ("us-docker.pkg.dev/p/r/nccl:run-7", "us-docker.pkg.dev/p/r/nccl"),
            ("localhost:5000/nccl", "localhost:5000/nccl"),
            ("nccl:latest", "nccl"),
        ];
        for (name, bare) in table {
            let built = build(json!({
                "images": [name],
                "results": {"images": [{"name": "x/other:1", "digest": other}, {"name": name, "digest": digest}]},
            }));
            assert_eq!(pushed(&built), Some((format!("{bare}@{digest}"), digest.clone())));
        }
        assert_eq!(pushed(&build(json!({"results": {}}))), None);
    }

    #[test]
    fn a_failure_has_a_reason_and_log_address() {
        let built = build(json!({
            "id": "b1", "logsBucket": "gs://b/logs/", "logUrl": "https://console/b1",
            "statusDetail": "vague", "failureInfo": {"type": "USER_BUILD_STEP", "detail": "step 1 exited with 2"},
        }));
        let failure = failure(&built, BuildStatus::Failure, "nvcc fatal");
        assert_eq!(
            failure.message,
            "step 1 exited with 2\nnvcc fatal\nthe whole log: gs://b/logs/log-b1.txt\nthe whole log: https://console/b1"
        );
    }

    #[test]
    fn a_manifest_with_an_object_of_another_bucket_is_rejected() {
        let line = |place: &str| json!({"location": place, "file_hash": [{"file_hash": []}]}).to_string();
        let two = format!("{}\n{}\n", line("gs://b/o/one#17"), line("gs://b/o/two"));
        assert_eq!(artifacts(two.as_bytes(), "b"), Ok(vec!["o/one".to_owned(), "o/two".to_owned()]));
        assert_eq!(artifacts(b"", "b"), Ok(vec![]));
        assert!(artifacts(line("gs://other/one#1").as_bytes(), "b").unwrap_err().contains("gs://other/one"));
        assert!(artifacts(b"<html>", "b").is_err());
    }
}
