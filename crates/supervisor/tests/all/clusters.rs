//! Clusters and jobs as processes: failures are reported, released clusters leave no process.

use std::{fs, io::ErrorKind, thread};

use crate::support::{TestMachine, cluster_request, ended, kill, now, output, runs, wait_for};
use model::{Span, Timestamp};
use supervisor::{ClusterState, JobFolder, JobRequest, JobState};

#[test]
fn a_job_runs_once_on_every_node_and_has_the_result_of_its_worst_process() {
    let bed = TestMachine::new();
    let jobs = bed.cluster("c", 3);
    let request =
        bed.job("echo $BURNIN_RANK/$BURNIN_RANKS | tee -a $WORLD/ranks; [ $BURNIN_RANK != 1 ] || exit 7");
    jobs.submit("j", &request).unwrap();
    jobs.submit("j", &bed.job("echo another job >> $WORLD/ranks")).unwrap();
    let end = ended(&jobs, "j");
    assert_eq!((end.state.as_str(), end.exit_code, end.signal), ("FAILED", Some(7), None));
    assert!(end.started_at.unwrap() <= end.ended_at.unwrap());
    let text = bed.text("ranks");
    let mut ranks: Vec<_> = text.lines().collect();
    ranks.sort_unstable();
    assert_eq!(ranks, ["0/3", "1/3", "2/3"]);
    assert_eq!(output(&jobs, "j"), "0/3\n1/3\n2/3\n", "each node has its own output file");
}

#[test]
fn a_process_ended_by_a_signal_reports_the_signal() {
    let bed = TestMachine::new();
    let jobs = bed.cluster("c", 1);
    jobs.submit("j", &bed.job("kill -SEGV $$")).unwrap();
    let end = ended(&jobs, "j");
    assert_eq!((end.state.as_str(), end.exit_code, end.signal), ("FAILED", None, Some(11)));
}

#[test]
fn a_killed_node_breaks_the_cluster_and_fails_its_job() {
    let bed = TestMachine::new();
    let jobs = bed.cluster("c", 2);
    jobs.submit("j", &bed.job("echo $$ > $WORLD/rank-$BURNIN_RANK; exec sleep 300")).unwrap();
    let (zero, one) = (bed.pid("rank-0"), bed.pid("rank-1"));
    kill(bed.node("c", "node-1"));
    let why = wait_for("the loss to be reported", || match bed.clusters.poll("c").unwrap() {
        ClusterState::Broken { why } => Some(why),
        _ => None,
    });
    assert!(why.contains("node-1"), "{why}");
    assert_eq!(jobs.poll("j").unwrap(), JobState::NodeFail { node: "node-1".into() });
    bed.clusters.create("c", &cluster_request(2, now() + Span::from_secs(30))).unwrap();
    assert!(matches!(bed.clusters.poll("c").unwrap(), ClusterState::Broken { .. }), "the loss is reported");
    bed.clusters.delete("c", now).unwrap();
    assert!(!runs(zero) && !runs(one), "the job's process on the killed node has ended as well");
    assert_eq!(jobs.poll("j").unwrap(), JobState::ClusterGone);
}

#[test]
fn a_node_that_was_requested_but_never_started_is_started_by_the_next_creation() {
    let bed = TestMachine::new();
    bed.request_without_process("c", "node-1");
    let jobs = bed.cluster("c", 2);
    jobs.submit("j", &bed.job("echo $BURNIN_RANK >> $WORLD/ranks")).unwrap();
    assert_eq!(ended(&jobs, "j").state, "COMPLETED");
    assert_eq!(bed.text("ranks").lines().count(), 2, "each node runs once");
}

#[test]
fn a_job_past_its_limit_ends_with_its_grandchildren() {
    let bed = TestMachine::new();
    let jobs = bed.cluster("c", 2);
    // One process ends on SIGTERM; its child does not.
    let script =
        "(trap '' TERM; sh -c 'echo $$ > $WORLD/grandchild-$BURNIN_RANK; sleep 300; sleep 300') & wait";
    jobs.submit("j", &JobRequest { limit: Span::from_millis(300), ..bed.job(script) }).unwrap();
    let grandchildren = [bed.pid("grandchild-0"), bed.pid("grandchild-1")];
    assert_eq!(ended(&jobs, "j").state, "TIMEOUT");
    assert_eq!(grandchildren.map(runs), [false, false]);
    assert!(
        matches!(bed.clusters.poll("c").unwrap(), ClusterState::Ready(_)),
        "the cluster accepts more jobs"
    );
}

#[test]
fn remaining_processes_end_with_their_leader() {
    let bed = TestMachine::new();
    let jobs = bed.cluster("c", 1);
    jobs.submit("j", &bed.job("sleep 300 & echo $! > $WORLD/child")).unwrap();
    let child = bed.pid("child");
    assert_eq!(ended(&jobs, "j").state, "COMPLETED");
    wait_for("the child to end", || (!runs(child)).then_some(()));
}

#[test]
fn a_job_cancelled_before_it_was_submitted_never_starts() {
    let bed = TestMachine::new();
    let jobs = bed.cluster("c", 2);
    jobs.cancel("j").unwrap();
    assert_eq!(jobs.poll("j").unwrap(), JobState::Absent);
    jobs.submit("j", &bed.job("echo ran >> $WORLD/counter")).unwrap();
    assert_eq!(ended(&jobs, "j").state, "CANCELLED");
    assert_eq!(bed.text("counter"), "");
}

#[test]
fn a_job_cancelled_while_it_runs_ends_everywhere() {
    let bed = TestMachine::new();
    let jobs = bed.cluster("c", 2);
    jobs.submit("j", &bed.job("echo $$ > $WORLD/rank-$BURNIN_RANK; exec sleep 300")).unwrap();
    let ranks = [bed.pid("rank-0"), bed.pid("rank-1")];
    jobs.cancel("j").unwrap();
    assert_eq!(ended(&jobs, "j").state, "CANCELLED");
    assert_eq!(ranks.map(runs), [false, false]);
}

#[test]
fn a_cancel_after_the_end_of_a_job_has_no_effect() {
    let bed = TestMachine::new();
    let jobs = bed.cluster("c", 1);
    jobs.submit("j", &bed.job("true")).unwrap();
    let end = ended(&jobs, "j");
    assert_eq!(end.state, "COMPLETED");
    jobs.cancel("j").unwrap();
    assert_eq!(ended(&jobs, "j"), end);
}

#[test]
fn hostile_arguments_reach_the_program_byte_for_byte() {
    let bed = TestMachine::new();
    let jobs = bed.cluster("c", 1);
    let hostile = [
        "",
        " ",
        "--",
        "-rf",
        "$(id)",
        "`id`",
        "$HOME",
        "'",
        "\"",
        "\\",
        "a\nb",
        "\t\r\x1b[31m",
        "; touch pwned",
        "*",
        "~",
        "{a,b}",
        "%s%n",
        "ünï\u{202e}cødé",
        "../../etc/passwd",
        "\u{7f}",
    ];
    let program = ["sh", "-c", "printf '%s\\0' \"$@\"", "sh"];
    let argv = program.into_iter().chain(hostile).map(str::to_owned).collect();
    jobs.submit("j", &JobRequest { argv, ..bed.job("") }).unwrap();
    assert_eq!(ended(&jobs, "j").state, "COMPLETED");
    let seen = output(&jobs, "j");
    let seen: Vec<&str> = seen.strip_suffix('\0').unwrap().split('\0').collect();
    assert_eq!(seen, hostile);
}

#[test]
fn a_job_that_cannot_be_started_fails_with_its_reason() {
    let bed = TestMachine::new();
    let jobs = bed.cluster("c", 1);
    let argvs = [vec!["no-such-program"], vec![], vec!["echo", "a\0b"], vec![""], vec!["/"]];
    for (number, argv) in argvs.into_iter().enumerate() {
        let name = format!("j{number}");
        let argv: Vec<String> = argv.into_iter().map(str::to_owned).collect();
        jobs.submit(&name, &JobRequest { argv: argv.clone(), ..bed.job("") }).unwrap();
        assert_eq!(ended(&jobs, &name).state, "FAILED", "{argv:?}");
        assert!(output(&jobs, &name).contains("cannot start"), "{argv:?}");
    }
    assert!(matches!(bed.clusters.poll("c").unwrap(), ClusterState::Ready(_)), "no node failed");
}

#[test]
fn a_job_on_some_nodes_runs_only_there_in_the_order_of_their_names() {
    let bed = TestMachine::new();
    let jobs = bed.cluster("c", 4);
    let nodes = vec!["node-3".to_owned(), "node-1".to_owned()];
    let script = "echo $BURNIN_RANK of $BURNIN_RANKS on ${BURNIN_NODE##*/}";
    jobs.submit("j", &JobRequest { nodes, ..bed.job(script) }).unwrap();
    assert_eq!(ended(&jobs, "j").state, "COMPLETED");
    let mut lines: Vec<String> = output(&jobs, "j").lines().map(str::to_owned).collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0 of 2 on node-3", "1 of 2 on node-1"]);
}

#[test]
fn a_job_inherits_only_the_search_paths_of_programs() {
    let bed = TestMachine::new();
    let jobs = bed.cluster("c", 1);
    jobs.submit("j", &JobRequest { argv: vec!["env".into()], ..bed.job("") }).unwrap();
    assert_eq!(ended(&jobs, "j").state, "COMPLETED");
    let seen = output(&jobs, "j");
    let mut names: Vec<_> = seen.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    names.retain(|name| *name != "LD_LIBRARY_PATH");
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "BURNIN_CLUSTER",
            "BURNIN_NODE",
            "BURNIN_NODE_NAME",
            "BURNIN_RANK",
            "BURNIN_RANKS",
            "BURNIN_RENDEZVOUS",
            "PATH",
            "WORLD"
        ]
    );
}

#[test]
fn a_released_cluster_leaves_no_process_even_after_setsid() {
    let bed = TestMachine::new();
    let jobs = bed.cluster("c", 2);
    let script = "setsid sh -c 'trap \"\" TERM; echo $$ > $WORLD/hidden-$BURNIN_RANK; sleep 300; sleep 300' & \
                  echo $$ > $WORLD/rank-$BURNIN_RANK; wait; sleep 300";
    jobs.submit("j", &bed.job(script)).unwrap();
    let nodes = [bed.node("c", "node-0"), bed.node("c", "node-1")];
    let ranks = [bed.pid("rank-0"), bed.pid("rank-1")];
    let hidden = [bed.pid("hidden-0"), bed.pid("hidden-1")];
    assert_eq!(hidden.map(runs), [true, true]);

    let deleted = bed.clusters.delete("c", now).unwrap();
    assert_eq!(deleted.name, "c");
    assert_eq!([nodes, ranks, hidden].concat().into_iter().filter(|pid| runs(*pid)).count(), 0);
    assert!(matches!(bed.clusters.poll("c").unwrap(), ClusterState::Deleted(_)));
}

#[test]
fn a_process_outside_the_group_of_a_killed_node_ends_with_the_cluster() {
    let bed = TestMachine::new();
    let jobs = bed.cluster("c", 1);
    jobs.submit(
        "j",
        &bed.job("setsid sh -c 'echo $$ > $WORLD/hidden; sleep 300; sleep 300' & wait; sleep 300"),
    )
    .unwrap();
    let hidden = bed.pid("hidden");
    kill(bed.node("c", "node-0"));
    bed.clusters.delete("c", now).unwrap();
    assert!(!runs(hidden));
}

#[test]
fn only_the_released_cluster_ends() {
    let bed = TestMachine::new();
    // One name is a prefix of the other, so marks must be compared completely.
    let (short, long) = (bed.cluster("c", 1), bed.cluster("c-1", 1));
    long.submit(
        "j",
        &bed.job("setsid sh -c 'echo $$ > $WORLD/other; sleep 300; sleep 300' & wait; sleep 300"),
    )
    .unwrap();
    let other = bed.pid("other");
    bed.clusters.delete("c", now).unwrap();
    assert!(runs(other));
    assert_eq!(long.poll("j").unwrap(), JobState::Running);
    assert_eq!(short.poll("j").unwrap(), JobState::ClusterGone);
}

#[test]
fn a_second_release_is_confirmed_with_its_own_time() {
    let bed = TestMachine::new();
    bed.cluster("c", 1);
    let at = Timestamp::from_millis;
    let first = bed.clusters.delete("c", || at(1000)).unwrap();
    let second = bed.clusters.delete("c", || at(2000)).unwrap();
    assert_eq!((first.confirmed_at, second.confirmed_at), (at(1000), at(2000)));
    assert_eq!((first.name, first.evidence), (second.name, second.evidence));
}

#[test]
fn a_released_name_is_rejected() {
    let bed = TestMachine::new();
    bed.cluster("c", 1);
    bed.clusters.delete("c", now).unwrap();
    bed.clusters.delete("never-there", now).unwrap();
    for name in ["c", "never-there"] {
        let refused = bed.clusters.create(name, &cluster_request(1, now() + Span::from_secs(30)));
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert!(matches!(bed.clusters.poll(name).unwrap(), ClusterState::Deleted(_)));
    }
}

#[test]
fn a_released_cluster_accepts_no_jobs() {
    let bed = TestMachine::new();
    let jobs = bed.cluster("c", 1);
    bed.clusters.delete("c", now).unwrap();
    let refused = jobs.submit("j", &bed.job("echo ran >> $WORLD/counter")).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound);
    assert_eq!(jobs.poll("j").unwrap(), JobState::ClusterGone);
    jobs.cancel("j").unwrap();
    let left = fs::read_dir(bed.path("clusters/c")).unwrap().count();
    assert_eq!(left, 3, "a late cancel leaves only the request, the mark and the proof");
    assert_eq!(bed.text("counter"), "");
}

#[test]
fn a_cluster_can_be_released_while_it_starts() {
    let bed = TestMachine::new();
    for number in 0..5 {
        let name = format!("c{number}");
        bed.clusters.create(&name, &cluster_request(2, now() + Span::from_secs(30))).unwrap();
        // The release fails while a node is starting; callers retry it.
        wait_for("the cluster to be deleted", || bed.clusters.delete(&name, now).ok());
        let folder = bed.path("clusters").join(&name);
        let mark = [b"BURNIN_CLUSTER=", folder.to_str().unwrap().as_bytes()].concat();
        wait_for("every node to end", || {
            let processes = fs::read_dir("/proc").unwrap().flatten();
            let left = processes.filter(|process| {
                let environment = fs::read(process.path().join("environ")).unwrap_or_default();
                environment.split(|byte| *byte == 0).any(|variable| variable == mark)
            });
            (left.count() == 0).then_some(())
        });
    }
}

#[test]
fn an_expired_cluster_ends_by_itself() {
    let bed = TestMachine::new();
    let jobs = bed.cluster_until("c", 2, now() + Span::from_millis(1500));
    let script = "setsid sh -c 'echo $$ > $WORLD/hidden-$BURNIN_RANK; sleep 300; sleep 300' & \
                  sh -c 'echo $$ > $WORLD/child-$BURNIN_RANK; sleep 300; sleep 300' & \
                  echo $$ > $WORLD/rank-$BURNIN_RANK; wait";
    jobs.submit("j", &bed.job(script)).unwrap();
    let nodes = [bed.node("c", "node-0"), bed.node("c", "node-1")];
    let ranks = [bed.pid("rank-0"), bed.pid("rank-1")];
    let children = [bed.pid("child-0"), bed.pid("child-1")];
    let hidden = [bed.pid("hidden-0"), bed.pid("hidden-1")];
    let all = [nodes, ranks, children, hidden].concat();
    assert!(all.iter().all(|pid| runs(*pid)));
    // From here on the test makes no calls until all processes have ended.
    wait_for("all processes to end", || (!all.iter().any(|pid| runs(*pid))).then_some(()));
    assert!(matches!(bed.clusters.poll("c").unwrap(), ClusterState::Broken { .. }));
    bed.clusters.delete("c", now).unwrap();
}

#[test]
fn a_failed_node_ends_its_processes() {
    let bed = TestMachine::new();
    let jobs = bed.cluster("c", 1);
    jobs.submit("j", &bed.job("echo $$ > $WORLD/rank; exec sleep 300")).unwrap();
    let rank = bed.pid("rank");
    fs::create_dir_all(bed.path("clusters/c/jobs/j/exits")).unwrap();
    fs::write(bed.path("clusters/c/jobs/j/exits/someone.json"), "the exit cannot be written").unwrap();
    wait_for("the process to end", || (!runs(rank)).then_some(()));
    wait_for("the loss to be reported", || {
        (jobs.poll("j").unwrap() == JobState::NodeFail { node: "node-0".into() }).then_some(())
    });
}

#[test]
fn polls_never_block_a_nodes_lock() {
    let bed = TestMachine::new();
    for number in 0..5 {
        let name = format!("c{number}");
        thread::scope(|scope| {
            let up = scope.spawn(|| bed.cluster(&name, 4));
            for _ in 0..2 {
                scope.spawn(|| {
                    wait_busily(|| match bed.clusters.poll(&name).unwrap() {
                        ClusterState::Ready(_) => true,
                        ClusterState::Broken { why } => panic!("{why}"),
                        _ => false,
                    });
                });
            }
            up.join().unwrap();
        });
        bed.clusters.delete(&name, now).unwrap();
    }
}

fn wait_busily(mut done: impl FnMut() -> bool) {
    let until = std::time::Instant::now() + std::time::Duration::from_secs(15);
    while !done() {
        assert!(std::time::Instant::now() < until, "a node did not acquire its lock within 15 s");
    }
}

#[test]
fn an_unknown_cluster_is_reported_as_absent() {
    let bed = TestMachine::new();
    assert_eq!(bed.clusters.poll("c").unwrap(), ClusterState::Absent);
    assert_eq!(JobFolder::at(bed.path("clusters/c")).poll("j").unwrap(), JobState::ClusterGone);
}
