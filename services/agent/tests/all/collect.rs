//! Collection of a job's output into the bucket.

use std::{
    collections::BTreeMap,
    io::Cursor,
    sync::{Arc, Mutex},
};

use agent::{CollectLimits, Collector};
use cluster_api::{FileTail, JobSpec, JobStatus, Outputs, Scheduler, WrittenFile};
use ledger::{Artefacts, Digest, MemoryStore, ObjectReader, Store};
use model::{
    Attempt, Class, Cluster, ClusterAccess, CommandId, Fact, Failure, JobRef, Manifest, ManifestObject,
    Stage, Verb,
};
use redact::Rules;
use service::PortError;
use tokio::io::{AsyncReadExt, repeat};

type FileChange = Box<dyn FnOnce(&mut BTreeMap<String, Vec<u8>>) + Send>;

/// Files in memory, read in small chunks.
#[derive(Default)]
struct ChangingFiles {
    files: Mutex<BTreeMap<String, Vec<u8>>>,
    /// Size of a file that is generated while it is read.
    endless: Option<(&'static str, u64)>,
    jumps: bool,
    /// Change of the files, applied once after the first listing.
    then: Mutex<Option<FileChange>>,
}

#[async_trait::async_trait]
impl Scheduler for ChangingFiles {
    async fn submit(&self, _: &JobSpec) -> Result<String, PortError> {
        unreachable!()
    }

    async fn poll(&self, _: &Cluster, _: &str) -> Result<JobStatus, PortError> {
        unreachable!()
    }

    async fn cancel(&self, _: &Cluster, _: &str) -> Result<(), PortError> {
        unreachable!()
    }

    async fn outputs(&self, _: &Cluster, _: &str) -> Result<Outputs, PortError> {
        let mut files = self.files.lock().unwrap();
        let written = |(name, content): (&String, &Vec<u8>)| WrittenFile {
            name: name.clone(),
            size_bytes: Some(content.len() as u64),
            identity: Some((0, content.first().copied().unwrap_or_default().into())),
        };
        let mut listed: Vec<_> = files.iter().map(written).collect();
        listed.extend(self.endless.map(|(name, size)| WrittenFile {
            name: name.to_owned(),
            size_bytes: Some(size),
            identity: None,
        }));
        if let Some(then) = self.then.lock().unwrap().take() {
            then(&mut files);
        }
        Ok(Outputs { files: listed, others: vec![("link".into(), "a symbolic link".into())] })
    }

    async fn output(&self, _: &Cluster, _: &str, file: &str) -> Result<ObjectReader, PortError> {
        if let Some((_, size)) = self.endless.filter(|(name, _)| *name == file) {
            return Ok(Box::new(repeat(b'x').take(size)));
        }
        match self.files.lock().unwrap().get(file) {
            Some(content) => {
                let (one, rest) = content.split_at(content.len() / 3);
                Ok(Box::new(Cursor::new(one.to_vec()).chain(Cursor::new(rest.to_vec()))))
            }
            None => {
                Err(PortError::Permanent(Failure::new(Class::Workload, "UNREADABLE", "the file is absent")))
            }
        }
    }

    async fn read_tail(
        &self,
        _: &Cluster,
        _: &str,
        file: &str,
        bytes: u64,
    ) -> Result<Option<FileTail>, PortError> {
        let files = self.files.lock().unwrap();
        let Some(content) = files.get(file).filter(|_| self.jumps) else { return Ok(None) };
        let from = content.len().saturating_sub(bytes as usize);
        Ok(Some(FileTail { from: from as u64, body: Box::new(Cursor::new(content[from..].to_vec())) }))
    }
}

struct CollectedJob {
    store: Arc<dyn Store>,
    files: Arc<ChangingFiles>,
    limits: CollectLimits,
}

impl CollectedJob {
    fn of<C: Into<Vec<u8>>>(files: impl IntoIterator<Item = (&'static str, C)>) -> Self {
        let files = files.into_iter().map(|(name, content)| (name.to_owned(), content.into())).collect();
        let files = ChangingFiles { files: Mutex::new(files), jumps: true, ..ChangingFiles::default() };
        let store = Arc::new(MemoryStore::default());
        Self { store, files: Arc::new(files), limits: CollectLimits::default() }
    }

    fn collector(&self) -> Collector {
        Collector {
            scheduler: self.files.clone(),
            artefacts: Artefacts::new(self.store.clone()),
            rules: Arc::new(Rules::new(["swordfish-1"]).unwrap()),
            limits: self.limits,
        }
    }

    /// Collects the output, and checks the stored objects against the manifest.
    async fn collect(&self) -> (Manifest, BTreeMap<String, (ManifestObject, Vec<u8>)>) {
        let id = id();
        let cluster = Cluster { name: "c".into(), nodes: vec![], access: ClusterAccess::processes("paper") };
        let jobs = [JobRef { attempt: Attempt::FIRST, handle: None }];
        let Fact::LogsCollected(logs) = self.collector().collect(&id, &cluster, &jobs).await.unwrap() else {
            panic!("collected nothing")
        };
        let manifest = self.store.read(&logs.manifest).await.unwrap().unwrap();
        assert_eq!(Digest::of(&manifest).sha256, logs.sha256);
        let manifest: Manifest = serde_json::from_slice(&manifest).unwrap();
        assert_eq!(logs.objects as usize, manifest.objects.len());
        let mut objects = BTreeMap::new();
        for object in &manifest.objects {
            let name = format!("{}{}", Artefacts::folder(&id), object.name);
            let stored = self.store.read(&name).await.unwrap().expect("stored");
            let digest = Digest::of(&stored);
            assert_eq!((digest.sha256, digest.size_bytes), (object.sha256.clone(), object.size_bytes));
            objects.insert(object.name.clone(), (object.clone(), stored.to_vec()));
        }
        (manifest, objects)
    }
}

fn id() -> CommandId {
    CommandId {
        run: "a-run".parse().unwrap(),
        stage: Stage::Logs,
        attempt: Attempt::FIRST,
        verb: Verb::Start,
    }
}

/// Numbered lines of 20 bytes.
fn lines(bytes: usize) -> Vec<u8> {
    (0..bytes / 20).flat_map(|line| format!("line {line:>14}\n").into_bytes()).collect()
}

#[tokio::test]
async fn secrets_are_redacted_and_listed_in_the_manifest() {
    let plain = lines(500_000);
    let secret = [&plain[..65_530], b"HF_TOKEN=abc swordfish-1\nswordfish-1\n", &plain].concat();
    let bed = CollectedJob::of([
        ("plain.log", plain.clone()),
        ("secret.log", secret.clone()),
        ("empty", vec![]),
        ("one", b"1".to_vec()),
    ]);
    let (manifest, objects) = bed.collect().await;
    assert_eq!(manifest.format, model::MANIFEST_FORMAT);
    assert_eq!(objects["1/plain.log"].1, plain);
    assert_eq!((objects["1/empty"].1.len(), &objects["1/one"].1[..]), (0, &b"1"[..]));
    let (object, stored) = &objects["1/secret.log"];
    let middle = b"HF_TOKEN=[redacted:assignment] [redacted:known-value]\n[redacted:known-value]\n";
    assert!(*stored == [&plain[..65_530], middle, &plain].concat());
    let collected = object.collected.as_ref().unwrap();
    assert_eq!(collected.read_bytes, secret.len() as u64);
    assert_eq!(collected.redacted.get("assignment"), Some(&1));
    assert_eq!(collected.redacted.get("known-value"), Some(&2));
    assert_eq!(
        manifest.left_out.iter().map(|left| (left.file.as_str(), left.why.as_str())).collect::<Vec<_>>(),
        [("link", "a symbolic link")]
    );
}

#[tokio::test]
async fn an_oversized_log_keeps_its_beginning_and_end() {
    let flood = lines(5_000_000);
    let mut bed = CollectedJob::of([("flood.log", flood.clone()), ("other.log", lines(1000))]);
    for (limit, whole) in
        [(5_000_000, true), (4_999_999, false), (3_000_001, false), (1000, false), (70, false), (0, false)]
    {
        bed.store = Arc::new(MemoryStore::default());
        bed.limits.file_bytes = limit;
        let (_, objects) = bed.collect().await;
        let (object, stored) = &objects["1/flood.log"];
        let cut = object.collected.as_ref().unwrap().cut.clone();
        assert_eq!(cut.is_none(), whole, "{limit}");
        let Some(cut) = cut else {
            assert_eq!(*stored, flood);
            continue;
        };
        assert!(stored.len() as u64 <= limit + 80, "{limit}: {}", stored.len());
        let (head, rest) = stored.split_at(cut.at_bytes as usize);
        let left = cut.left_out_bytes.unwrap() as usize;
        let mark = format!("[burnin: cut here, {left} bytes left out]\n");
        let tail = rest.strip_prefix(mark.as_bytes()).expect("the mark is a separate line");
        assert!(flood.starts_with(head) && flood.ends_with(tail), "{limit}");
        assert_eq!(head.len() + left + tail.len(), flood.len(), "{limit}");
        assert!(head.is_empty() || head.ends_with(b"\n"), "{limit}");
    }
    // A job's files share its limit, and one oversized file cannot use up the other files' share.
    bed.store = Arc::new(MemoryStore::default());
    bed.limits = CollectLimits { job_bytes: 2_000_000, ..CollectLimits::default() };
    let (_, objects) = bed.collect().await;
    assert_eq!(objects["1/other.log"].1, lines(1000));
    assert!(objects["1/flood.log"].0.collected.as_ref().unwrap().cut.is_some());
}

#[tokio::test]
async fn without_random_access_only_the_beginning_is_kept() {
    let mut bed = CollectedJob::of([("x", lines(0))]);
    let files = ChangingFiles { endless: Some(("flood", 300_000_000)), ..ChangingFiles::default() };
    bed.files = Arc::new(files);
    bed.limits.file_bytes = 2_000_000;
    let (_, objects) = bed.collect().await;
    let (object, stored) = &objects["1/flood"];
    assert!(stored.ends_with(b"xxx\n[burnin: cut here, the rest left out]\n") && stored.len() < 2_000_100);
    let collected = object.collected.as_ref().unwrap();
    assert_eq!(collected.cut.as_ref().unwrap().left_out_bytes, None);
    assert!(collected.read_bytes < 3_000_000, "the oversized file is not read completely");
}

#[tokio::test]
async fn a_retry_reuses_stored_files_and_stores_changed_files_under_new_names() {
    let bed = CollectedJob::of([("a.log", "one"), ("b.log", "two"), ("c.log", "three")]);
    let (before, _) = bed.collect().await;
    // Simulates a crash after every file was stored, and before the manifest was.
    let again = CollectedJob::of([("a.log", "one"), ("b.log", "two and more"), ("c.log", "three")]);
    for object in &before.objects {
        let name = format!("{}{}", Artefacts::folder(&id()), object.name);
        let bytes = bed.store.read(&name).await.unwrap().unwrap();
        again.store.create(&name, bytes).await.unwrap();
    }
    let (after, objects) = again.collect().await;
    let names: Vec<_> = after.objects.iter().map(|object| object.name.as_str()).collect();
    assert_eq!(names, ["1/a.log", "1/b.log~2", "1/c.log"]);
    assert_eq!(objects["1/b.log~2"].1, b"two and more");
    assert_eq!(after.objects[0], before.objects[0]);
    assert_eq!(again.collect().await.0, after, "the committed manifest is unchanged");
}

#[tokio::test]
async fn files_that_change_during_collection_are_reported() {
    let mut bed = CollectedJob::of([("grown", "a"), ("rotated", "old"), ("gone", "b"), ("same", "c")]);
    let files = Arc::get_mut(&mut bed.files).unwrap();
    *files.then.get_mut().unwrap() = Some(Box::new(|files| {
        files.insert("rotated.1".into(), b"old".to_vec());
        files.insert("rotated".into(), b"new".to_vec());
        files.remove("gone");
    }));
    let (manifest, objects) = bed.collect().await;
    let changed = |name: &str| objects[name].0.collected.as_ref().unwrap().changed.as_deref();
    assert_eq!(changed("1/rotated"), Some("replaced"));
    assert_eq!(objects["1/rotated.1"].1, b"old", "a rotated file is found under its new name");
    assert_eq!((changed("1/grown"), changed("1/same")), (None, None));
    assert!(manifest.left_out.iter().any(|left| left.file == "gone" && left.why == "the file is absent"));
}

#[tokio::test]
async fn at_most_ten_thousand_files_are_collected() {
    let bed = CollectedJob::of([("x", "")]);
    {
        let mut files = bed.files.files.lock().unwrap();
        files.clear();
        for number in 0..12_000 {
            files.insert(format!("{number:05}\n.log"), format!("{number}").into_bytes());
        }
    }
    let (manifest, objects) = bed.collect().await;
    assert_eq!(objects.len(), 10_000);
    assert!(manifest.objects.iter().all(|object| {
        object.collected.as_ref().unwrap().file.as_ref().is_some_and(|file| file.contains('\n'))
    }));
    assert_eq!(manifest.left_out.len(), 1001, "the list of omitted files is bounded");
    assert_eq!(manifest.left_out[1000].why, "and 1001 more");
}
