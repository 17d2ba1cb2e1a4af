//! Results of a build, and classes of failures.

use std::sync::Arc;

use build_service::{BuildPhase, Builds, cloud_build::LogBucket};
use ledger::{Artefacts, Digest, MemoryStore, Store};
use model::{BuildSpec, Class, SourceObject};
use serde_json::json;
use service::PortError;

use test_support::cloud_build::{CloudBuildBed, id, spec, with};

#[tokio::test(flavor = "multi_thread")]
async fn an_image_of_files_is_stored_with_its_log() {
    let bed = CloudBuildBed::new().await;
    let files =
        json!({"artifacts": {"objects": {"location": "gs://anywhere/", "paths": ["two", "out/one"]}}});
    bed.start(&with(files, "SUCCESS")).await.unwrap();
    let image = bed.image().await;
    assert_eq!(image.reference, "artefacts/a-run/image/1/");
    let read: Vec<_> = image.files.iter().map(|file| (file.name.as_str(), file.sha256.clone())).collect();
    let expected =
        [("one", Digest::of(b"the content of out/one")), ("two", Digest::of(b"the content of two"))];
    assert_eq!(read, expected.map(|(name, digest)| (name, digest.sha256)));
    let log = bed.store.read("artefacts/a-run/image/1/build.log").await.unwrap().unwrap();
    assert!(String::from_utf8_lossy(&log).contains("this is the last line"));
    let committed = Artefacts::new(bed.store.clone()).committed(&id()).await.unwrap().unwrap();
    assert_eq!(committed.manifest.objects.len(), 3);
    assert_eq!(bed.image().await, image, "a repeated poll returns the same image");
    assert_eq!(
        bed.another().poll(&id()).await.unwrap(),
        Some(BuildPhase::Built(image)),
        "every builder returns the same state"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_image_is_identified_by_its_digest() {
    let bed = CloudBuildBed::new().await;
    let name = "us-central1-docker.pkg.dev/proj/repo/nccl:a-run";
    bed.start(&with(json!({"images": [name], "artifacts": {}}), "SUCCESS")).await.unwrap();
    let image = bed.image().await;
    let digest = bed.cloud.builds()[0]["results"]["images"][0]["digest"].as_str().unwrap().to_owned();
    assert_eq!(image.reference, format!("us-central1-docker.pkg.dev/proj/repo/nccl@{digest}"));
    assert_eq!((image.digest, image.files), (digest, vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_artifact_cannot_replace_the_manifest_or_the_log() {
    for name in ["manifest.json", "build.log"] {
        let bed = CloudBuildBed::new().await;
        let files = json!({"artifacts": {"objects": {"location": "gs://anywhere/", "paths": [name]}}});
        bed.start(&with(files, "SUCCESS")).await.unwrap();
        let mut result = bed.builds.poll(&id()).await;
        while matches!(result, Ok(Some(BuildPhase::Running))) {
            result = bed.builds.poll(&id()).await;
        }
        assert!(
            matches!(&result, Err(PortError::Permanent(why)) if why.code == "ARTIFACT_NAME"),
            "{result:?}"
        );
        assert!(Artefacts::new(bed.store.clone()).committed(&id()).await.unwrap().is_none());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_failure_has_a_class() {
    for (status, class) in [
        ("FAILURE", Class::Workload),
        ("TIMEOUT", Class::Workload),
        ("INTERNAL_ERROR", Class::Infrastructure),
        ("EXPIRED", Class::Infrastructure),
        ("CANCELLED", Class::Cancelled),
    ] {
        let bed = CloudBuildBed::new().await;
        bed.start(&spec(status)).await.unwrap();
        let BuildPhase::Failed(failure) = bed.end().await else { panic!("{status}") };
        assert_eq!((failure.class, failure.code.as_str()), (class, status));
        assert!(failure.message.contains("this is the last line"), "its log is quoted: {failure:?}");
        let log = format!(
            "gs://burnin-artefacts/builds/a-run-image-1/1/log-{}.txt",
            bed.cloud.builds()[0]["id"].as_str().unwrap()
        );
        assert!(failure.message.contains(&log), "its log's address is reported: {failure:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_read_from_the_log_bucket() {
    let mut bed = CloudBuildBed::new().await;
    let logs = Arc::new(MemoryStore::default());
    bed.cloud.add_log_bucket("logs", logs.clone());
    let account = "projects/p/serviceAccounts/image@p.iam.gserviceaccount.com".to_owned();
    let bucket = LogBucket { name: "logs".to_owned(), store: logs };
    bed.builds = bed.another().running_as(Some(account.clone()), Some(bucket));
    bed.start(&spec("FAILURE")).await.unwrap();
    let BuildPhase::Failed(failure) = bed.end().await else { panic!("not failed") };
    assert!(failure.message.contains("this is the last line"), "its log is quoted: {failure:?}");
    assert!(failure.message.contains("gs://logs/builds/a-run-image-1/1/log-"), "{failure:?}");
    assert_eq!(bed.cloud.builds()[0]["serviceAccount"], account);

    let mut bed = CloudBuildBed::new().await;
    bed.builds = bed.another().running_as(Some(account), None);
    let nowhere = with(json!({"logsBucket": "", "options": {"logging": "GCS_ONLY"}}), "SUCCESS");
    let refused = bed.start(&nowhere).await;
    assert!(
        matches!(&refused, Err(PortError::Permanent(why)) if why.message.contains("build.logs_bucket")),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_status_is_reported_as_running() {
    let bed = CloudBuildBed::new().await;
    bed.start(&spec("SUCCESS")).await.unwrap();
    let build = bed.cloud.builds()[0]["id"].as_str().unwrap().to_owned();
    for unknown in ["STATUS_UNKNOWN", "ON_HOLIDAY"] {
        bed.cloud.set(&build, unknown);
        assert_eq!(bed.builds.poll(&id()).await.unwrap(), Some(BuildPhase::Running), "{unknown}");
    }
    bed.cloud.set(&build, "WORKING");
    bed.image().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_source_is_gzipped_once_and_checked() {
    let bed = CloudBuildBed::new().await;
    let tar = b"a tar archive with the parts that this test needs".to_vec();
    let sha256 = Digest::of(&tar).sha256;
    let from = |object: &str, sha256: &str| BuildSpec {
        source: Some(SourceObject { object: object.to_owned(), sha256: sha256.to_owned() }),
        ..spec("SUCCESS")
    };
    let failure = |result| match result {
        Err(PortError::Permanent(failure)) => failure.code,
        other => panic!("{other:?}"),
    };
    assert_eq!(failure(bed.start(&from("sources/x.tar", &sha256)).await), "SOURCE_MISSING");
    bed.store.create("sources/x.tar", tar.clone().into()).await.unwrap();
    assert_eq!(failure(bed.start(&from("sources/x.tar", &"ab".repeat(32))).await), "ARTEFACT_DAMAGED");
    bed.start(&from("sources/x.tar", &sha256)).await.unwrap();
    let zipped = format!("sources/{sha256}.tar.gz");
    assert_eq!(
        bed.cloud.builds()[0]["source"],
        json!({"storageSource": {"bucket": "burnin-artefacts", "object": zipped}})
    );
    let bytes = bed.store.read(&zipped).await.unwrap().unwrap();
    let mut unzipped = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&bytes[..]), &mut unzipped).unwrap();
    assert_eq!(unzipped, tar);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tags_of_a_build_identify_its_command_and_its_run() {
    let bed = CloudBuildBed::new().await;
    bed.start(&with(json!({"tags": ["nightly"]}), "SUCCESS")).await.unwrap();
    let build = &bed.cloud.builds()[0];
    assert_eq!(
        build["tags"],
        json!(["nightly", "burnin.a-run.image.1", "burnin.run.a-run", "burnin.claim.1"])
    );
    assert!(build["name"].as_str().unwrap().starts_with("projects/proj/locations/us-central1/builds/"));
}
