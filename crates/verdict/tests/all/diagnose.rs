//! Each cause is detected from the messages of its programs; healthy runs have no cause.

use std::{collections::BTreeSet, io::Read};

use model::{Cluster, Criteria, JobEnd, Node, Verdict, measurement::Reading};
use verdict::{
    ClueReader, Clues, Judgement, RunEvidence, Standard,
    diagnose::Cause::{self, *},
    judge,
};

const HEADER: &str = "# nThread 1 nGpus 1 minBytes 8388608 maxBytes 8388608 step: 2(factor)
#
# Using devices
#  Rank  0 Group  0 Pid   1616 on     node-1 device  0 [0000:00:06] NVIDIA H100
#  Rank  1 Group  0 Pid   1617 on     node-2 device  0 [0000:00:06] NVIDIA H100
";
const TABLE: &str = "#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
     8388608       2097152     float     sum      -1    100.0   83.89   83.89       0    100.0   83.89   83.89       0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 83.89
#
";

fn read_log(log: &str) -> (Reading, Clues) {
    let mut clue_reader = ClueReader::new(log.as_bytes());
    let reading = nccl::read(&mut clue_reader).unwrap();
    (reading, clue_reader.finish())
}

fn judged(log: &str, network: Option<&str>, state: &str) -> Judgement {
    judged_on(2, log, network, state)
}

/// Judges a log of a cluster with this number of nodes.
fn judged_on(nodes: u32, log: &str, network: Option<&str>, state: &str) -> Judgement {
    let (reading, clues) = read_log(log);
    let exit_code = (state == "COMPLETED").then_some(0);
    let job = JobEnd::new(state, exit_code);
    let nodes = (1..=nodes).map(|number| Node::new(format!("node-{number}"), 1)).collect();
    let cluster = Cluster { name: "hall".into(), nodes, access: model::ClusterAccess::processes("") };
    let criteria = Criteria { network: network.map(str::to_owned), ..Criteria::named("test") };
    let evidence =
        RunEvidence { job: Some(&job), cluster: Some(&cluster), ..RunEvidence::of(&reading, &clues) };
    judge(&evidence, &Standard { criteria: Some(&criteria), ..Standard::default() })
}

/// Rest of a case's log, after the lines that name the cause.
#[derive(Clone, Copy, PartialEq)]
enum LogRest {
    /// The log continues with a complete table.
    Measures,
    /// The log ends without a table.
    Stops,
}
use LogRest::{Measures, Stops};

struct DiagnosisCase {
    cause: Cause,
    lines: &'static str,
    then: LogRest,
    state: &'static str,
    network: Option<&'static str>,
    suspected_nodes: Option<&'static str>,
}

const fn case(cause: Cause, lines: &'static str, then: LogRest) -> DiagnosisCase {
    DiagnosisCase { cause, lines, then, state: "FAILED", network: None, suspected_nodes: None }
}

const fn on(network: &'static str, case: DiagnosisCase) -> DiagnosisCase {
    DiagnosisCase { network: Some(network), ..case }
}

const fn blaming(host: &'static str, case: DiagnosisCase) -> DiagnosisCase {
    DiagnosisCase { suspected_nodes: Some(host), ..case }
}

const CASES: &[DiagnosisCase] = &[
    on(
        "FasTrak",
        case(
            SocketFallback,
            "node-1:21:26 [0] NCCL INFO Using network Socket\nnode-2:21:26 [0] NCCL INFO Using network Socket",
            Measures,
        ),
    ),
    case(
        SocketFallback,
        "node-1:21:26 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0",
        Measures,
    ),
    on("FasTrak", case(SocketFallback, "node-1:21:26 [0] NCCL INFO NET/FasTrak disabled", Measures)),
    on("gIB", case(PluginNotFound, "node-1:21:26 [0] NCCL WARN Error: network gIB not found.", Stops)),
    on(
        "FasTrak",
        case(
            PluginNotFound,
            "node-1:21:26 [0] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so), using internal implementation\nnode-1:21:26 [0] NCCL INFO Using network Socket",
            Measures,
        ),
    ),
    on(
        "gIB",
        case(
            PluginUnloadable,
            "node-1:21:26 [0] NCCL INFO NET/Plugin: dlerror=/lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.32' not found (required by /usr/local/gib/lib64/libnccl-net.so) No plugin found",
            Stops,
        ),
    ),
    on(
        "gIB",
        blaming(
            "node-2",
            case(
                DevicesNotFound,
                "node-2:21:26 [0] NCCL INFO NET/gIB : No device found.\nnode-2:21:26 [0] NCCL INFO Using network Socket\nnode-1:21:26 [0] NCCL INFO Using network gIB",
                Measures,
            ),
        ),
    ),
    blaming(
        "node-2",
        case(
            RxdmNotReady,
            "node-1:21:26 [0] NCCL WARN Timeout: RxDM not ready on node-2 after 30 seconds",
            Stops,
        ),
    ),
    case(
        RxdmNotReady,
        "E0105 12:00:00.000000 1 gpumem_manager.cc:99] Initialization failed with result: UNAVAILABLE: no NIC for GPU 3",
        Stops,
    ),
    case(
        ProfileMissing,
        "1: PREFLIGHT: node-2: /var/lib/tcpxo/lib64/nccl-env-profile.sh: No such file or directory",
        Stops,
    ),
    blaming(
        "node-2",
        case(StorageBroken, "1: STORAGE: node-2: /data: expected a mount of type lustre, found ext4", Stops),
    ),
    case(
        RxdmGpuCount,
        "E0101 a3.cc:99] Number of GPUs detected 7 is not equal to the actual number of GPUs 8",
        Stops,
    ),
    on(
        "IB",
        case(
            GdrOff,
            "node-1:21:26 [0] NCCL INFO Using network IB\nnode-1:21:26 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\nnode-1:21:26 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0",
            Stops,
        ),
    ),
    case(ApertureDevicesMissing, "ERROR: APERTURE devices failed to initialize after 10 retries.", Stops),
    blaming(
        "node-1",
        case(InterfaceNotFound, "node-1:21:26 [0] NCCL WARN Bootstrap : no socket interface found", Stops),
    ),
    case(
        MixedInterfaces,
        "node-1:21:26 [0] NCCL INFO Bootstrap : Using eth0:192.0.2.11<0>\nnode-2:21:26 [0] NCCL INFO Bootstrap : Using enp0s12:192.0.2.12<0>",
        Stops,
    ),
    case(
        GuestConfigRejected,
        "node-1:21:26 [0] NCCL WARN NCCL/NET (shim) mismatch enforced: NCCL_MIN_NCHANNELS=8 (expected 4)",
        Stops,
    ),
    blaming("node-1", case(OutOfMemory, "node-1: Test CUDA failure common.cu:892 'out of memory'", Stops)),
    blaming(
        "node-1",
        case(
            CudaError,
            "node-1: Test CUDA failure common.cu:892 'an illegal memory access was encountered'",
            Stops,
        ),
    ),
    blaming(
        "node-2",
        case(
            GpuFault,
            "node-2:21:26 [3] NCCL WARN Cuda failure 'uncorrectable ECC error encountered'",
            Stops,
        ),
    ),
    case(
        TimedOut,
        "slurmstepd: error: *** STEP 12.0 ON node-1 CANCELLED AT 2026-01-05T12:00:00 DUE TO TIME LIMIT ***",
        Stops,
    ),
    case(
        Preempted,
        "slurmstepd: error: *** JOB 12 ON node-1 CANCELLED AT 2026-01-05T12:00:00 DUE TO PREEMPTION ***",
        Stops,
    ),
    case(
        NodeFailed,
        "slurmstepd: error: *** JOB 12 ON node-1 CANCELLED AT 2026-01-05T12:00:00 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***",
        Stops,
    ),
    case(
        PeerLost,
        "node-1: Test NCCL failure common.cu:1005 'remote process exited or there was a network error / '",
        Stops,
    ),
    case(
        Unreachable,
        "node-1:21:26 [0] NCCL INFO Call to connect returned Connection refused, retrying",
        Stops,
    ),
    case(Unreachable, "node-2 is not ready yet (pong failed, retrying in 2 seconds)", Stops),
    case(
        RdmaError,
        "node-1:21:26 [0] NCCL WARN NET/IB : Got completion from peer 192.0.2.12<47000> with status=12 opcode=0 len=0 vendor err 129 (Recv)",
        Stops,
    ),
    case(ContainerFailed, "slurmstepd: error: pyxis: [ERROR] Command not found: nvidia-container-cli", Stops),
    case(
        ContainerFailed,
        "slurmstepd: error: pyxis: realpath: /home/ubuntu/nccl.sqsh: No such file or directory",
        Stops,
    ),
    case(
        ProgramMissing,
        "slurmstepd: error: execve(): /nccl-tests/build/all_gather_perf: No such file or directory",
        Stops,
    ),
    case(
        FolderMissing,
        "slurmstepd: error: couldn't chdir to `/root/work': No such file or directory: going to /tmp instead",
        Stops,
    ),
    case(PrologFailed, "job 12 launch failed requeued held", Stops),
    case(
        Crashed,
        "[node-1:01616] *** Process received signal ***\n/usr/bin/bash: line 1: 1616 Segmentation fault (core dumped)",
        Stops,
    ),
    case(OverriddenSetting, "node-1:21:26 [0] NCCL INFO NCCL_PROTO set by environment to LL", Stops),
];

#[test]
fn every_cause_is_found_by_its_phrases() {
    for DiagnosisCase { cause, lines, then, state, network, suspected_nodes } in CASES {
        let (state, rest) = if *then == Measures { ("COMPLETED", TABLE) } else { (*state, "") };
        let log = format!("{HEADER}{lines}\n{rest}");
        let judgement = judged(&log, *network, state);
        let found = judgement.diagnoses.iter().find(|diagnosis| diagnosis.cause == *cause);
        let found = found.unwrap_or_else(|| panic!("{cause} of\n{lines}\n{judgement:#?}"));
        let line = found.evidence.first().unwrap_or_else(|| panic!("{cause} has no line as evidence"));
        assert_eq!(log.lines().nth(line.line as usize - 1), Some(line.text.as_str()), "{cause}");
        let suspects: Vec<_> =
            judgement.suspects.iter().filter_map(|suspect| suspect.host.as_deref()).collect();
        assert_eq!(suspects.first(), suspected_nodes.as_ref(), "{cause}: {judgement:#?}");
    }
}

/// Logs of jobs that failed before the benchmark started, with the expected cause.
const NOT_STARTED: &[(&str, Option<Cause>)] = &[
    ("", None),
    ("loading modules\n+ srun ./run.sh", None),
    ("bash: line 1: ./all_gather_perf: No such file or directory", Some(ProgramMissing)),
    ("/bin/sh: 1: all_gather_perf: not found", Some(ProgramMissing)),
    ("bash: all_reduce_perf: command not found", Some(ProgramMissing)),
    ("bash: ./all_reduce_perf: Permission denied", Some(ProgramMissing)),
    ("bash: ./all_reduce_perf: cannot execute binary file: Exec format error", Some(ProgramMissing)),
    (
        "./all_reduce_perf: error while loading shared libraries: libnccl.so.2: cannot open shared object file: No such file or directory",
        Some(ProgramMissing),
    ),
    (
        "./all_reduce_perf: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.38' not found (required by ./all_reduce_perf)",
        Some(ProgramMissing),
    ),
    (
        "slurmstepd: error: execve(): all_gather_perf: No such file or directory\nsrun: error: node-2: task 1: Exited with exit code 2",
        Some(ProgramMissing),
    ),
    ("srun: error: node-2: task 1: Exited with exit code 127", None),
    (
        "mpirun was unable to launch the specified application as it could not access\nor execute an executable:\n\nExecutable: ./all_gather_perf\nNode: node-2",
        Some(ProgramMissing),
    ),
    ("slurmstepd: error: pyxis: [ERROR] Command not found: nvidia-container-cli", Some(ContainerFailed)),
    ("docker: Error response from daemon: manifest unknown.", Some(ContainerFailed)),
    (
        "OCI runtime create failed: runc create failed: exec: \"all_reduce_perf\": executable file not found in $PATH",
        Some(ContainerFailed),
    ),
    (
        "slurmstepd: error: couldn't chdir to `/root/work': No such file or directory: going to /tmp instead",
        Some(FolderMissing),
    ),
    ("job 12 launch failed requeued held on node-2", Some(PrologFailed)),
    ("slurmstepd: error: task_p_pre_launch: Prolog error on node-2", Some(PrologFailed)),
    ("ssh: connect to host node-2 port 22: Connection refused", Some(Unreachable)),
    ("/usr/bin/bash: line 1: 1616 Segmentation fault (core dumped) ./all_reduce_perf", Some(Crashed)),
    ("slurmstepd: error: Detected 1 oom_kill event in StepId=12.0.", Some(OutOfMemory)),
];

#[test]
fn a_benchmark_that_did_not_start_is_inconclusive_without_suspects() {
    for (lines, cause) in NOT_STARTED {
        for state in ["FAILED", "OUT_OF_MEMORY", "PREEMPTED"] {
            let judgement = judged(&format!("{lines}\n"), None, state);
            assert_eq!(judgement.verdict, Verdict::Inconclusive, "{lines}: {judgement:#?}");
            assert_eq!(judgement.reasons[0].code, "NOT_STARTED", "{lines}");
            assert_eq!(judgement.suspects, [], "{lines}");
            let named = cause.is_none_or(|cause| causes(&judgement).contains(&cause));
            assert!(named, "{lines}: {:?}", causes(&judgement));
        }
        // After the benchmark's start the same message is a failure of the run.
        let began = judged(&format!("{HEADER}{lines}\n"), None, "FAILED");
        assert_eq!((began.verdict, began.reasons[0].code.as_str()), (Verdict::Fail, "JOB_FAILED"), "{lines}");
    }
}

#[test]
fn a_fault_named_before_the_first_line_of_the_benchmark_is_reported() {
    let cases: &[(&str, Cause, Option<&str>)] = &[
        ("[ 12.3] NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.", GpuFault, None),
        (
            "node-2: Test CUDA failure common.cu:892 'uncorrectable ECC error encountered'",
            GpuFault,
            Some("node-2"),
        ),
        ("node-2: Test CUDA failure common.cu:1010 'system not yet initialized'", CudaError, Some("node-2")),
        (
            "node-2:21:26 [0] NCCL WARN NET/IB : Got completion from peer 192.0.2.12<47000> with status=12 vendor err 129",
            RdmaError,
            None,
        ),
        ("node-1: ibv_modify_qp failed with 110", RdmaError, None),
        (
            "node-2:21:26 [0] NCCL WARN Bootstrap : no socket interface found",
            InterfaceNotFound,
            Some("node-2"),
        ),
        (
            "slurmstepd: error: *** JOB 12 ON node-1 CANCELLED AT 2026-01-05T12:00:00 DUE TO NODE FAILURE ***",
            NodeFailed,
            None,
        ),
        (
            "1: STORAGE: node-2: /data: expected a mount of type lustre, found ext4",
            StorageBroken,
            Some("node-2"),
        ),
        (
            "E0101 a3.cc:99] Number of GPUs detected 7 is not equal to the actual number of GPUs 8",
            RxdmGpuCount,
            None,
        ),
    ];
    for (lines, cause, blamed) in cases {
        // Even if the program is missing too, the fault of the node decides.
        for more in ["", "bash: ./all_reduce_perf: No such file or directory\n"] {
            let judgement = judged(&format!("{lines}\n{more}"), None, "FAILED");
            assert_eq!(judgement.reasons[0].code, "JOB_FAILED", "{lines}");
            assert_eq!(judgement.verdict, Verdict::Fail, "{lines}");
            assert!(causes(&judgement).contains(cause), "{lines}: {:?}", causes(&judgement));
            let suspects: Vec<_> = judgement.suspects.iter().filter_map(|it| it.host.as_deref()).collect();
            assert_eq!(suspects.first(), blamed.as_ref(), "{lines}");
        }
    }
    // NCCL began before it failed, so the benchmark has started and the verdict on the failed job is fail.
    for lines in
        ["NCCL version 2.28.9+cuda13.0", "node-1: Test NCCL failure common.cu:1005 'internal error / '"]
    {
        let judgement = judged(&format!("{lines}\n"), None, "FAILED");
        assert_eq!(
            (judgement.verdict, judgement.reasons[0].code.as_str()),
            (Verdict::Fail, "JOB_FAILED"),
            "{lines}"
        );
    }
    // Only the scheduler's state shows a lost node.
    assert_eq!(judged("", None, "NODE_FAIL").verdict, Verdict::Fail);
    assert_eq!(judged("", None, "CANCELLED").reasons[0].code, "JOB_STOPPED");
}

fn causes(judgement: &Judgement) -> Vec<Cause> {
    judgement.diagnoses.iter().map(|diagnosis| diagnosis.cause).collect()
}

#[test]
fn causes_shown_by_missing_lines_are_found() {
    let one_rank = "# nThread 1 nGpus 1 minBytes 8388608 maxBytes 8388608 step: 2(factor)\n#\n# Using devices
#  Rank  0 Group  0 Pid   1616 on     node-1 device  0 [0000:00:06] NVIDIA H100\n";
    let alone = format!("{one_rank}{TABLE}{one_rank}{TABLE}");
    assert_eq!(causes(&judged(&alone, None, "COMPLETED")), [IndependentRuns]);

    let fewer = judged(&format!("{one_rank}{TABLE}"), None, "COMPLETED");
    assert_eq!(causes(&fewer), [NodeMissing, WrongRankCount]);
    assert_eq!(fewer.suspects[0].host.as_deref(), Some("node-2"));

    assert_eq!(causes(&judged(HEADER, None, "CANCELLED")), [WentSilent]);
    assert_eq!(causes(&judged(HEADER, None, "OUT_OF_MEMORY"))[0], OutOfMemory);

    let corrupt = TABLE.replace("0 OK", "2 FAILED");
    assert_eq!(causes(&judged(&format!("{HEADER}{corrupt}"), None, "FAILED")), [DataCorruption]);

    let named: BTreeSet<_> = CASES.iter().map(|case| case.cause).collect();
    let also = [IndependentRuns, NodeMissing, WrongRankCount, WentSilent, DataCorruption];
    let left: Vec<_> =
        Cause::ALL.iter().filter(|cause| !named.contains(cause) && !also.contains(cause)).collect();
    assert!(left.is_empty(), "no test covers {left:?}");
}

#[test]
fn healthy_runs_have_no_diagnoses() {
    let infiniband = "node-1:21:26 [0] NCCL INFO Bootstrap : Using ib0:192.0.2.11<0>
node-1:21:26 [0] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so), using internal implementation
node-1:21:26 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB ib0:192.0.2.11<0>
node-1:21:26 [0] NCCL INFO Using network IB
node-1:21:26 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to ib0
node-1:21:26 [0] NCCL INFO Call to connect returned Connection refused, retrying
node-1:21:26 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IBext_v8/0/GDRDMA
";
    for network in [None, Some("IB")] {
        let judgement = judged(&format!("{HEADER}{infiniband}{TABLE}"), network, "COMPLETED");
        assert_eq!((judgement.verdict, causes(&judgement)), (Verdict::Pass, vec![]), "{judgement:#?}");
        assert_eq!(judgement.suspects, []);
    }
    let fastrak = "node-1:21:26 [0] NCCL INFO NET/FasTrak plugin initialized, version 1.0.15
node-1:21:26 [0] NCCL INFO Using network FasTrak
node-1:21:26 [0] NCCL WARN NCCL/NET (shim) mismatch recommended: NCCL_SOCKET_NTHREADS=4 (expected unset)
";
    let judgement = judged(&format!("{HEADER}{fastrak}{TABLE}"), Some("FasTrak"), "COMPLETED");
    assert_eq!((judgement.verdict, causes(&judgement)), (Verdict::Pass, vec![]), "{judgement:#?}");
    assert_eq!(judgement.fingerprint.get("plugin"), Some("1.0.15"));
    assert_eq!(judgement.fingerprint.get("network"), Some("FasTrak"));
}

#[test]
fn an_unknown_network_does_not_pass() {
    let silent = judged(&format!("{HEADER}{TABLE}"), Some("gIB"), "COMPLETED");
    assert_eq!((silent.verdict, silent.reasons[0].code.as_str()), (Verdict::Inconclusive, "NETWORK_UNKNOWN"));
    let mixed =
        "node-1:21:26 [0] NCCL INFO Using network gIB\nnode-2:21:26 [0] NCCL INFO Using network Socket\n";
    let mixed = judged(&format!("{HEADER}{mixed}{TABLE}"), Some("gIB"), "COMPLETED");
    assert_eq!((mixed.verdict, mixed.reasons[0].code.as_str()), (Verdict::Fail, "WRONG_NETWORK"));
}

#[test]
fn interleaved_lines_give_no_false_network() {
    // A launcher prints such a line if a rank's newline comes after the line of another rank.
    let glued = |network: &str| {
        format!(
            "node-1:21:26 [0] NCCL INFO Using network {network}node-2:22:27 [1] NCCL INFO Using network {network}\n\n"
        )
    };
    let log =
        |network| format!("{HEADER}node-2:23:28 [1] NCCL INFO Using network gIB\n{}{TABLE}", glued(network));
    let clues = read_log(&log("gIB")).1;
    assert_eq!(clues.network_names(), ["gIB"].into());
    assert_eq!(clues.networks["gIB"].hosts, ["node-1".to_owned(), "node-2".to_owned()].into());
    assert_eq!(judged(&log("gIB"), Some("gIB"), "COMPLETED").verdict, Verdict::Pass);
    // A name that occurs only in interleaved lines is ignored.
    let other = judged(&log("Socket"), Some("gIB"), "COMPLETED");
    assert_eq!((other.verdict, other.reasons[0].code.as_str()), (Verdict::Fail, "WRONG_NETWORK"));
}

#[test]
fn the_silent_peer_is_suspected_rather_than_the_reporters() {
    let header: String = (0..4)
        .map(|rank| {
            format!(
                "#  Rank  {rank} Group  0 Pid 16{rank} on node-{rank} device  0 [0000:00:06] NVIDIA H100\n"
            )
        })
        .collect();
    let lost = |host| {
        format!(
            "node-{host}: Test NCCL failure common.cu:1005 'remote process exited or there was a network error / '\n"
        )
    };
    let log = format!("# Using devices\n{header}{}{}{}", lost(0), lost(1), lost(3));
    let (reading, clues) = read_log(&log);
    let judgement = judge(&RunEvidence::of(&reading, &clues), &Standard::default());
    let named: Vec<_> = judgement.suspects.iter().map(|suspect| suspect.host.as_deref()).collect();
    assert_eq!(named, [Some("node-2")], "{judgement:#?}");
}

#[test]
fn clues_do_not_depend_on_the_chunks_of_the_log() {
    let log: String = CASES.iter().map(|case| format!("{}\r\n", case.lines)).collect();
    let whole = read_log(&log).1;
    assert!(whole.signs.len() > 20);
    for chunk in [1, 2, 7, 64, 1000] {
        let mut clue_reader = ClueReader::new(log.as_bytes());
        let mut buffer = vec![0; chunk];
        while clue_reader.read(&mut buffer).unwrap() > 0 {}
        assert_eq!(clue_reader.finish(), whole, "{chunk} bytes at a time");
    }
}

#[test]
fn memory_is_bounded_for_any_log() {
    let mut clue_reader = ClueReader::new(std::io::repeat(b'x').take(64 << 20));
    std::io::copy(&mut clue_reader, &mut std::io::sink()).unwrap();
    assert_eq!(clue_reader.finish(), Clues::default(), "one line of 64 MiB");
    let many: String =
        (0..20_000).map(|host| format!("host-{host}:1:1 [0] NCCL INFO Using network net{host}\n")).collect();
    let clues = read_log(&many).1;
    assert!(clues.networks.len() <= 4096);
    let repeated = "node-1:1:1 [0] NCCL INFO Using network IB\n".repeat(10_000);
    let clues = read_log(&repeated).1;
    assert_eq!((clues.networks["IB"].times, clues.networks["IB"].lines.len()), (10_000, 3));
}

#[test]
fn several_bad_nodes_are_suspects_also_if_no_rank_started() {
    let lines = "1: STORAGE: node-2: /data: expected a mount of type lustre, found ext4\n\
                 4: STORAGE: node-5: /data: expected a mount of type lustre, found ext4\n";
    let judgement = judged_on(16, lines, None, "FAILED");
    let suspects: BTreeSet<_> = judgement.suspects.iter().filter_map(|it| it.host.as_deref()).collect();
    assert_eq!((judgement.verdict, suspects), (Verdict::Fail, BTreeSet::from(["node-2", "node-5"])));
    // All nodes report the same: the fault is not in the nodes.
    let judgement = judged_on(2, &lines.replace("node-5", "node-1"), None, "FAILED");
    assert!(judgement.suspects.is_empty(), "{:?}", judgement.suspects);
}
