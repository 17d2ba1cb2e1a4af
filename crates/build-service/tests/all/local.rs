//! Builds on this host: content of an image, and classes of failures.

use std::{sync::Arc, time::Duration};

use build_service::{BuildKey, BuildPhase, Builds, LocalBuilds};
use ledger::{Artefacts, Digest, MemoryStore, Store};
use model::{
    Attempt, BuildSpec, Class, CommandId, Failure, Image, SourceObject, SourceRepository, Span, Stage, Verb,
};
use serde_json::json;
use service::PortError;
use tempfile::TempDir;

struct BuildBed {
    root: TempDir,
    store: Arc<MemoryStore>,
    builds: LocalBuilds,
}

fn id() -> BuildKey {
    BuildKey::of(&CommandId {
        run: "a-run".parse().unwrap(),
        stage: Stage::Image,
        attempt: Attempt::FIRST,
        verb: Verb::Start,
    })
}

fn spec(script: &str, artifacts: &[&str]) -> BuildSpec {
    let mut config = json!({"steps": [{"name": "bash", "script": script}]});
    if !artifacts.is_empty() {
        config["artifacts"] = json!({"objects": {"location": "gs://anywhere/", "paths": artifacts}});
    }
    BuildSpec { config, source: None, repository: None, substitutions: Default::default() }
}

impl BuildBed {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let store = Arc::new(MemoryStore::default());
        let builds = LocalBuilds::new(
            supervisor::BuildFolder::new(root.path(), crate::support::program()),
            store.clone(),
            None,
        );
        Self { root, store, builds }
    }

    async fn end(&self) -> Result<BuildPhase, PortError> {
        for _ in 0..1000 {
            match self.builds.poll(&id()).await? {
                Some(BuildPhase::Running) => tokio::time::sleep(Duration::from_millis(10)).await,
                Some(ended) => return Ok(ended),
                None => panic!("the build is absent"),
            }
        }
        panic!("timeout: the build has not ended");
    }

    async fn run(&self, build: &BuildSpec) -> BuildPhase {
        self.builds.start(&id(), build, Span::from_secs(30)).await.unwrap();
        self.end().await.unwrap()
    }

    async fn image(&self, build: &BuildSpec) -> Image {
        match self.run(build).await {
            BuildPhase::Built(image) => image,
            other => panic!("{other:?}"),
        }
    }

    async fn failure(&self, build: &BuildSpec) -> Failure {
        match self.run(build).await {
            BuildPhase::Failed(failure) => failure,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_files_of_an_image_are_stored_with_its_log() {
    let bed = BuildBed::new();
    let image = bed.image(&spec("echo hello; printf one > one; printf two > two", &["one", "two"])).await;
    assert_eq!(image.reference, "artefacts/a-run/image/1/");
    let files: Vec<_> = image.files.iter().map(|file| (file.name.as_str(), file.sha256.clone())).collect();
    assert_eq!(files, [("one", Digest::of(b"one").sha256), ("two", Digest::of(b"two").sha256)]);
    for (name, text) in [("one", "one"), ("two", "two")] {
        assert_eq!(bed.store.read(&format!("{}{name}", image.reference)).await.unwrap().unwrap(), text);
    }
    let log = bed.store.read("artefacts/a-run/image/1/build.log").await.unwrap().unwrap();
    assert!(String::from_utf8_lossy(&log).contains("hello"), "{log:?}");
    assert!(Artefacts::new(bed.store.clone()).committed(&id()).await.unwrap().is_some());
    let again = BuildBed::new();
    let same = again.image(&spec("echo bye; printf one > one; printf two > two", &["two", "one"])).await;
    assert_eq!(image.digest, same.digest, "equal files have equal digests, regardless of the log");
    let other = BuildBed::new().image(&spec("printf one > one; printf 2 > two", &["one", "two"])).await;
    assert_ne!(image.digest, other.digest);
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_find_the_source_in_their_workspace() {
    let bed = BuildBed::new();
    let tar = std::process::Command::new("tar")
        .args(["--create", "--file=-", "--directory"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))
        .arg("port.rs")
        .output()
        .unwrap();
    assert!(tar.status.success());
    let sha256 = Digest::of(&tar.stdout).sha256;
    bed.store.create("sources/x.tar", tar.stdout.into()).await.unwrap();
    let source = Some(SourceObject { object: "sources/x.tar".into(), sha256 });
    let image = bed.image(&BuildSpec { source, ..spec("cp port.rs out", &["out"]) }).await;
    assert_eq!(image.files[0].sha256, Digest::of(include_bytes!("../../src/port.rs")).sha256);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_fetches_one_revision_of_its_repository() {
    let folder = tempfile::tempdir().unwrap();
    let git = |arguments: &[&str]| {
        let mut git = std::process::Command::new("git");
        git.current_dir(folder.path()).args(["-c", "user.name=a", "-c", "user.email=a@example.com"]);
        let output = git.args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    git(&["init", "--quiet", "--initial-branch=main"]);
    let commits = ["one", "two"].map(|text| {
        std::fs::write(folder.path().join("file"), text).unwrap();
        git(&["add", "."]);
        git(&["commit", "--quiet", "-m", text]);
        git(&["rev-parse", "HEAD"])
    });
    let url = folder.path().display().to_string();
    let of = |revision: &str| {
        let repository = SourceRepository { url: url.clone(), connection: None, revision: revision.into() };
        BuildSpec { repository: Some(repository), ..spec("cp file out", &["out"]) }
    };
    // Build the older commit, although the branch has a newer commit; then build the branch.
    for (revision, text) in [(commits[0].as_str(), "one"), ("main", "two")] {
        let image = BuildBed::new().image(&of(revision)).await;
        assert_eq!(image.files[0].sha256, Digest::of(text.as_bytes()).sha256, "{revision}");
    }
    let failed = BuildBed::new().failure(&of("no-such-branch")).await;
    let expected = format!("revision no-such-branch of {url} cannot be fetched: git: ");
    assert!(failed.message.starts_with(&expected), "{}", failed.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_source_is_a_permanent_failure() {
    let bed = BuildBed::new();
    let source = Some(SourceObject { object: "sources/none.tar".into(), sha256: "ab".repeat(32) });
    let refused =
        bed.builds.start(&id(), &BuildSpec { source, ..spec("true", &[]) }, Span::from_secs(5)).await;
    assert!(
        matches!(&refused, Err(PortError::Permanent(why)) if why.class == Class::Input && why.code == "SOURCE_MISSING"),
        "{refused:?}"
    );
    assert_eq!(bed.builds.poll(&id()).await.unwrap(), None, "no build was started");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_build_quotes_its_log() {
    let bed = BuildBed::new();
    let failure = bed.failure(&spec("echo nvcc fatal: no such architecture; exit 3", &[])).await;
    assert_eq!((failure.class, failure.code.as_str()), (Class::Workload, "FAILURE"));
    assert!(failure.message.contains("exit code 3"), "{failure:?}");
    assert!(failure.message.contains("nvcc fatal: no such architecture"), "{failure:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_ends_at_the_stages_limit_despite_a_longer_timeout_in_its_config() {
    let bed = BuildBed::new();
    let mut build = spec("sleep 300", &[]);
    build.config["timeout"] = "3600s".into();
    build.config["steps"][0]["timeout"] = "1800s".into();
    bed.builds.start(&id(), &build, Span::from_secs(1)).await.unwrap();
    let BuildPhase::Failed(failure) = bed.end().await.unwrap() else {
        panic!("the build exceeds its timeout")
    };
    assert_eq!((failure.class, failure.code.as_str()), (Class::Workload, "TIMEOUT"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_supervisor_is_an_infrastructure_failure() {
    let bed = BuildBed::new();
    let build = spec(&format!("echo > {}/began; sleep 300", bed.root.path().display()), &[]);
    bed.builds.start(&id(), &build, Span::from_secs(30)).await.unwrap();
    let began = async {
        while !bed.root.path().join("began").exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), began).await.expect("the step starts");
    crate::support::kill_supervisor(&bed.root.path().join("a-run-image-1"));
    let BuildPhase::Failed(failure) = bed.end().await.unwrap() else {
        panic!("a build without a supervisor must fail")
    };
    assert_eq!((failure.class, failure.code.as_str()), (Class::Infrastructure, "INTERNAL_ERROR"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_artifact_cannot_replace_the_manifest_or_the_log() {
    for name in ["manifest.json", "build.log"] {
        let bed = BuildBed::new();
        let build = spec(&format!("echo '{{}}' > {name}"), &[name]);
        bed.builds.start(&id(), &build, Span::from_secs(30)).await.unwrap();
        let refused = bed.end().await;
        assert!(
            matches!(&refused, Err(PortError::Permanent(why)) if why.class == Class::Input && why.code == "ARTIFACT_NAME"),
            "{name}: {refused:?}"
        );
        let committed = Artefacts::new(bed.store.clone()).committed(&id()).await.unwrap();
        assert!(committed.is_none(), "{name}: no image is committed");
    }
}
