//! Conformance suite of [`Scheduler`].

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::symlink, net::UnixListener},
    path::Path,
    time::Duration,
};

use service::PortError;

use model::{Cluster, Collective, CommandLine, Every, ExtraArgs, JobEnd, OutputFormat, Program, Workload};
use tokio::io::AsyncReadExt;

use crate::scheduler::{JobSpec, JobStatus, Outputs, Scheduler, WrittenFile};

/// A short benchmark for tests of schedulers.
pub const fn program() -> Program {
    Program::NcclTests(Workload {
        collective: Collective::AllReduce,
        min_bytes: 8,
        max_bytes: 64,
        step_factor: 2,
        iterations: 20,
        warmup_iterations: 5,
        check: true,
        datatype: None,
        extra_args: ExtraArgs::NONE,
    })
}

/// Checks that the adapter conforms to the port. `job` makes a job with the given name that runs for about 1 s, succeeds
/// and writes output.
///
/// # Panics
/// Panics if a check fails.
pub async fn scheduler(scheduler: &dyn Scheduler, cluster: &Cluster, job: impl Fn(&str) -> JobSpec) {
    assert_eq!(scheduler.poll(cluster, "one").await.expect("an answer"), JobStatus::Absent);

    let handle = scheduler.submit(&job("one")).await.expect("a handle");
    assert_eq!(
        scheduler.submit(&job("one")).await.expect("a handle"),
        handle,
        "a second submission finds the first job"
    );
    let end = ended(scheduler, cluster, "one").await;
    assert_eq!((end.state.as_str(), end.exit_code), ("COMPLETED", Some(0)));
    scheduler.cancel(cluster, "one").await.expect("an answer");
    assert_eq!(ended(scheduler, cluster, "one").await, end, "the first end state is final");

    let files = scheduler.outputs(cluster, "one").await.expect("an answer");
    assert!(!files.files.is_empty());
    let mut text = String::new();
    for WrittenFile { name, size_bytes, .. } in &files.files {
        let before = text.len();
        let mut body = scheduler.output(cluster, "one", name).await.expect("a file");
        body.read_to_string(&mut text).await.expect("text");
        assert!(
            size_bytes.is_none_or(|size| size == (text.len() - before) as u64),
            "the size of {name} equals its listed size"
        );
        if let Some(mut ending) = scheduler.read_tail(cluster, "one", name, 3).await.expect("an answer") {
            let mut end = String::new();
            ending.body.read_to_string(&mut end).await.expect("text");
            assert!(text.ends_with(&end) && end.len() <= 3, "the tail of {name} equals its last bytes");
            assert_eq!(ending.from as usize + end.len(), text.len() - before);
        }
    }
    assert!(!text.is_empty());
    assert_eq!(scheduler.outputs(cluster, "none").await.expect("an answer"), Outputs::default());

    let ran = scheduler.nodes(cluster, "one").await.expect("nodes");
    // The nodes of a cluster may be unknown before a job runs on them.
    assert!(!ran.is_empty() && [0, ran.len()].contains(&cluster.nodes.len()), "{ran:?}");
    // A job on a part of the cluster runs on all nodes of the part, and on no other.
    if let [_, others @ ..] = &ran[..]
        && !others.is_empty()
    {
        let names: Vec<_> = others.iter().map(String::as_str).collect();
        let part = scheduler.part(cluster, &names).expect("a part");
        let job = JobSpec { cluster: part.clone(), ..job("part") };
        scheduler.submit(&job).await.expect("a handle");
        assert_eq!(ended(scheduler, &part, "part").await.state, "COMPLETED");
        assert_eq!(scheduler.nodes(&part, "part").await.expect("an answer"), others);
    }

    scheduler.submit(&job("two")).await.expect("a handle");
    scheduler.cancel(cluster, "two").await.expect("an answer");
    assert_eq!(ended(scheduler, cluster, "two").await.state, "CANCELLED");

    scheduler.cancel(cluster, "three").await.expect("an answer");
    scheduler.submit(&job("three")).await.expect("a handle");
    assert_eq!(
        ended(scheduler, cluster, "three").await.state,
        "CANCELLED",
        "a job cancelled before its submission does not run"
    );
}

/// Checks that a program of each node runs once on each node, between two probes of the node, and that a failure on one node does not
/// end the program on the others. `job` makes a job with the given name on the cluster, which has at least two nodes.
///
/// # Panics
/// Panics if a check fails.
pub async fn program_of_each_node(
    scheduler: &dyn Scheduler,
    cluster: &Cluster,
    job: impl Fn(&str) -> JobSpec,
) {
    let script = "echo \"measured by $BURNIN_NODE_NAME\"; [[ $BURNIN_NODE_NAME != \"$1\" ]] || exit 7; sleep 2; echo 'finished by' \"$2\"";
    let run = async |name: &str, failing: &str| {
        let argv = ["bash", "-c", script, "measure", failing, "it's \"$(all)\""].map(str::to_owned).into();
        let read = OutputFormat::Format("key-value".to_owned());
        let command = CommandLine { argv, every: Every::Node, rounds: None, image: None, read };
        let spec = JobSpec { program: Program::Command(command), evidence: true, ..job(name) };
        scheduler.submit(&spec).await.expect("a handle");
        let end = ended(scheduler, cluster, name).await;
        let mut texts = Vec::new();
        for WrittenFile { name: file, .. } in scheduler.outputs(cluster, name).await.expect("an answer").files
        {
            let mut text = String::new();
            let mut body = scheduler.output(cluster, name, &file).await.expect("a file");
            body.read_to_string(&mut text).await.expect("text");
            texts.extend(text.contains("burnin node: ").then_some(text));
        }
        (end, texts)
    };
    let (end, texts) = run("each-node", "none").await;
    assert_eq!((end.state.as_str(), end.exit_code), ("COMPLETED", Some(0)), "{texts:?}");
    let nodes = scheduler.nodes(cluster, "each-node").await.expect("nodes");
    assert!(nodes.len() >= 2 && texts.len() == nodes.len(), "each of {nodes:?} has one log: {texts:?}");
    for node in &nodes {
        let named = |text: &&String| text.contains(&format!("burnin node: {node}\n"));
        let text = texts.iter().find(named).expect("each node has a log");
        assert_eq!(text.matches(&format!("measured by {node}\n")).count(), 1, "{text}");
        assert_eq!(text.matches("finished by it's \"$(all)\"\n").count(), 1, "{text}");
        let marks = [
            format!("burnin evidence: {node} before end complete\n"),
            format!("measured by {node}\n"),
            format!("burnin evidence: {node} after end complete\n"),
        ];
        let places = marks.map(|mark| text.find(&mark));
        assert!(
            places.iter().all(Option::is_some) && places.is_sorted(),
            "evidence is taken before and after the program: {text}"
        );
    }
    let (end, texts) = run("each-node-fails", &nodes[1]).await;
    assert_eq!((end.state.as_str(), end.exit_code), ("FAILED", Some(7)), "{texts:?}");
    let finished = texts.iter().filter(|text| text.contains("finished by")).count();
    assert_eq!(finished, nodes.len() - 1, "the other nodes continue: {texts:?}");
}

/// Checks that a program is started on both nodes of every pair, the client after its server listens, that the client gets an address
/// of the server, and that a failed pair does not end the others. `job` makes a job with the given name on the cluster, which
/// has at least two nodes and Python.
///
/// # Panics
/// Panics if a check fails.
pub async fn program_of_each_pair(
    scheduler: &dyn Scheduler,
    cluster: &Cluster,
    job: impl Fn(&str) -> JobSpec,
) {
    // The server starts to listen after 1 s, on every address, and runs longer than its client.
    let script = "set -u\nif [[ $BURNIN_PAIR_INDEX == 0 ]]; then exec python3 -c 'import socket, time; time.sleep(1)\n\
                  listening = socket.create_server((\"\", 18515), backlog=8)\nprint(\"serving\", flush=True); time.sleep(600)'; fi\n\
                  [[ $BURNIN_NODE_NAME != \"$1\" ]] || exit 7\nexec {to}<>/dev/tcp/\"$2\"/18515 && echo \"connected from $BURNIN_NODE_NAME\"";
    let run = async |name: &str, failing: &str| {
        let argv = ["bash", "-c", script, "measure", failing, "{peer}"].map(str::to_owned).into();
        let read = OutputFormat::Format("key-value".to_owned());
        let command = CommandLine { argv, every: Every::Pair, rounds: None, image: None, read };
        let spec = JobSpec { program: Program::Command(command), ..job(name) };
        scheduler.submit(&spec).await.expect("a handle");
        let end = ended(scheduler, cluster, name).await;
        let mut texts = Vec::new();
        for WrittenFile { name: file, .. } in scheduler.outputs(cluster, name).await.expect("an answer").files
        {
            let mut text = String::new();
            let mut body = scheduler.output(cluster, name, &file).await.expect("a file");
            body.read_to_string(&mut text).await.expect("text");
            texts.extend(text.contains("burnin pairs: ").then_some(text));
        }
        assert_eq!(texts.len(), 1, "one log has all pairs: {texts:?}");
        (end, texts.remove(0))
    };
    let (end, text) = run("pairs", "none").await;
    assert_eq!((end.state.as_str(), end.exit_code), ("COMPLETED", Some(0)), "{text}");
    let nodes = scheduler.nodes(cluster, "pairs").await.expect("nodes");
    let named = text.lines().find_map(|line| Some(line.split_once("burnin pairs: ")?.1)).expect("the nodes");
    let mut named: Vec<_> = named.split(' ').collect();
    let pairs = nodes.len() * (nodes.len() - 1) / 2;
    assert_eq!(text.matches("burnin pair ended: 0\n").count(), pairs, "{text}");
    for (a, b) in model::pair_rounds(named.len(), None).concat() {
        let begins = format!("burnin pair: {} to {}\n", named[b], named[a]);
        let section = text.split(&begins).nth(1).and_then(|rest| rest.split("burnin pair ended: ").next());
        let connected = format!("connected from {}\n", named[b]);
        assert!(section.is_some_and(|section| section.contains(&connected)), "{begins}{connected}{text}");
    }
    let client = named[1].to_owned();
    named.sort_unstable();
    assert_eq!(named, nodes, "the log contains the scheduler's node names: {text}");
    let (end, text) = run("pairs-fail", &client).await;
    assert_eq!((end.state.as_str(), end.exit_code), ("FAILED", Some(7)), "{text}");
    assert_eq!(text.matches("burnin pair ended: ").count(), pairs, "the other pairs continue: {text}");
}

/// Checks that the adapter lists only a job's own files in `folder`, the output folder of the job `name`, and follows no link
/// out of it. Only for adapters whose jobs write into a folder of this host.
///
/// # Panics
/// Panics if a check fails.
pub async fn folder(scheduler: &dyn Scheduler, cluster: &Cluster, name: &str, folder: &Path) {
    let outside = folder.with_extension("outside");
    fs::write(&outside, "not a file of the job").expect("a file");
    fs::create_dir_all(folder.join("deep/er")).expect("a folder");
    let names = [
        &b"hostile-new\nline"[..],
        b"hostile-\xff\xfe",
        b"hostile-\\xff\\xfe",
        b"hostile- ~$(x)%20",
        b"deep/er/hostile.log",
        b"hostile.log.1",
        &[b'h'; 255],
    ];
    for file in names {
        fs::write(folder.join(OsStr::from_bytes(file)), file).expect("a file");
    }
    for (link, target) in
        [("link-out", outside.as_path()), ("link-folder", Path::new("/etc")), ("link-in", Path::new("deep"))]
    {
        symlink(target, folder.join(link)).expect("a link");
    }
    let socket = UnixListener::bind(folder.join("socket")).expect("a socket");

    let listed = scheduler.outputs(cluster, name).await.expect("an answer");
    let mut found = BTreeSet::new();
    for file in &listed.files {
        let mut content = Vec::new();
        let mut body = scheduler.output(cluster, name, &file.name).await.expect("a file");
        body.read_to_end(&mut content).await.expect("bytes");
        assert_ne!(content, b"not the job's", "{} is outside the job's folder", file.name);
        found.insert(content);
    }
    for file in names {
        assert!(found.contains(file), "{} is found", file.escape_ascii());
    }
    for other in ["link-out", "link-folder", "link-in", "socket"] {
        assert!(
            listed.others.iter().any(|(name, why)| name == other && !why.is_empty()),
            "{other} is listed with a reason"
        );
    }
    for none in ["link-out", "link-folder/passwd", "../x", "nothing", "socket"] {
        assert!(scheduler.output(cluster, name, none).await.is_err(), "{none} is not readable");
    }
    for none in ["link-out", "link-folder/passwd", "nothing"] {
        let refused = scheduler.output(cluster, name, none).await;
        assert!(
            matches!(refused, Err(PortError::Permanent(_))),
            "reading {none} must return a permanent error"
        );
    }
    drop(socket);
}

async fn ended(scheduler: &dyn Scheduler, cluster: &Cluster, name: &str) -> JobEnd {
    for _ in 0..3000 {
        match scheduler.poll(cluster, name).await.expect("an answer") {
            JobStatus::Ended(end) => return end,
            JobStatus::Active => tokio::time::sleep(Duration::from_millis(10)).await,
            other => panic!("{name}: {other:?}"),
        }
    }
    panic!("timeout: {name} has not ended");
}
