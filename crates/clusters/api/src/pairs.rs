//! Shell text (bash) that runs a program on pairs of nodes. Pure.
//!
//! The output has a section for each pair, which the judge reads:
//!
//! ```text
//! burnin pairs: NODE NODE ...            the nodes, in the order of model::pair_rounds
//! burnin pair: CLIENT to SERVER
//! ...                                    output of the client
//! burnin pair ended: STATUS
//! server: ...                            output of the server, each line
//! ```
//!
//! The lines of the nodes' evidence, if it is collected, follow the last section.

use crate::shell::quote;

/// Defines `run_pairs ROUNDS EVIDENCE`, which runs at most `ROUNDS` rounds of pairs (0: all rounds), prints their sections and returns the
/// highest exit status. If `EVIDENCE` is 1, a process on each node collects evidence from before the first pair until after the last one.
///
/// Requires the arrays `nodes` (names) and `addresses`, a writable folder `$pairs`, and the function `run_end NUMBER`, which runs one
/// end on node `NUMBER` with its standard streams and the variables `BURNIN_PAIR_INDEX` and `BURNIN_PEER`; the index `evidence` starts
/// the process that collects evidence.
pub const RUN_PAIRS: &str = r#"
# One pair. Arguments: prefix of its files, numbers of the nodes of server and client.
run_pair() {
  local files=$1 server=$2 client=$3 hold process status served stays=0 try
  mkfifo -- "$files.stdin" || return 73
  BURNIN_PAIR_INDEX=0 BURNIN_PEER=${addresses[client]} run_end "$server" <"$files.stdin" >"$files.server" 2>&1 &
  process=$!
  # The server ends when its standard input does, even if this shell is killed.
  exec {hold}>"$files.stdin"
  while kill -0 "$process" 2>/dev/null && ! grep -qs '^burnin pair: ready$' "$files.server"; do sleep 0.1; done
  BURNIN_PAIR_INDEX=1 BURNIN_PEER=${addresses[server]} run_end "$client" </dev/null >"$files.client" 2>&1 {hold}>&-
  status=$?
  for try in {1..20}; do kill -0 "$process" 2>/dev/null || break; sleep 0.1; done
  # Many servers serve until they are ended: their status then has no meaning.
  kill -0 "$process" 2>/dev/null && stays=1
  exec {hold}>&-
  wait "$process"; served=$?
  ((status || stays)) || status=$served
  return "$status"
}
# Starts the process of each node that collects evidence, and waits until the evidence before the job is complete, 10 s at most. All of
# them read from one pipe, which has no data: they take the evidence after the job when it is closed. Each has its own process group
# (`set -m`), so that a hanging one can be ended with its descendants, and is disowned, so that this shell does not report its end.
begin_evidence() {
  local node try left
  mkfifo -- "$pairs/evidence.stdin" || return 73
  for node in "${!nodes[@]}"; do
    set -m
    BURNIN_PAIR_INDEX=evidence BURNIN_PEER= run_end "$node" <"$pairs/evidence.stdin" >"$pairs/evidence-$node" 2>&1 &
    set +m
    collectors[$node]=$!
    disown "$!"
  done
  exec {input}>"$pairs/evidence.stdin"
  for try in {1..100}; do
    left=0
    for node in "${!nodes[@]}"; do
      is_ready "$node" || ! kill -0 "${collectors[$node]}" 2>/dev/null || left=1
    done
    ((left)) || break
    sleep 0.1
  done
  for node in "${!nodes[@]}"; do is_ready "$node" || late[$node]=1; done
}
# Whether the evidence of a node before the job is complete.
is_ready() { grep -qs ' before end complete$' "$pairs/evidence-$1"; }
# Ends these processes and prints their evidence. A process that does not end within 10 s leaves incomplete evidence. Evidence before the
# job that was not complete when the pairs began is not printed, because it may show the node under load; a line states this.
end_evidence() {
  local node try left
  for try in {1..100}; do
    left=0
    for node in "${!nodes[@]}"; do ! kill -0 "${collectors[$node]}" 2>/dev/null || left=1; done
    ((left)) || break
    sleep 0.1
  done
  for node in "${!nodes[@]}"; do
    kill -KILL -- "-${collectors[$node]}" 2>/dev/null
    if [[ -n ${late[$node]-} ]]; then
      printf 'burnin evidence: %s before late %s\n' "${nodes[node]}" 'it was not complete when the pairs began'
      sed -n -e '/^burnin evidence: [^ ]* before /d' -e '/^burnin evidence: /p' "$pairs/evidence-$node"
    else
      sed -n '/^burnin evidence: /p' "$pairs/evidence-$node"
    fi
    rm -f -- "$pairs/evidence-$node"
  done
  rm -f -- "$pairs/evidence.stdin"
}
run_pairs() {
  local most=$1 takes_evidence=${2:-0} input circle=("${!nodes[@]}") last half round at first second status worst=0
  local -A processes collectors late
  ((takes_evidence == 0)) || begin_evidence || takes_evidence=0
  [[ -n ${input:-} ]] || exec {input}>/dev/null
  ((${#nodes[@]} % 2 == 0)) || circle+=(none)
  last=$((${#circle[@]} - 1)) half=$((${#circle[@]} / 2))
  ((most > 0 && most < last)) || most=$last
  printf 'burnin pairs: %s\n' "${nodes[*]}"
  for ((round = 0; round < most; round++)); do
    processes=()
    for ((at = 0; at < half; at++)); do
      first=${circle[at]} second=${circle[last - at]}
      [[ $first != none && $second != none ]] || continue
      # The pipe of the evidence must close when this shell closes it.
      run_pair "$pairs/$round-$at" "$first" "$second" {input}>&- &
      processes[$at]=$!
    done
    for ((at = 0; at < half; at++)); do
      [[ -n ${processes[$at]:-} ]] || continue
      wait "${processes[$at]}"; status=$?
      printf 'burnin pair: %s to %s\n' "${nodes[circle[last - at]]}" "${nodes[circle[at]]}"
      cat -- "$pairs/$round-$at.client"
      # The output may have no newline at its end.
      printf '\nburnin pair ended: %d\n' "$status"
      sed 's/^/server: /' "$pairs/$round-$at.server"
      rm -f -- "$pairs/$round-$at."*
      ((status > worst)) && worst=$status
    done
    circle=("${circle[0]}" "${circle[last]}" "${circle[@]:1:last-1}")
  done
  exec {input}>&-
  ((takes_evidence == 0)) || end_evidence
  return "$worst"
}
"#;

/// Shell text that one end of a pair executes before its program. The program's command line is in the positional
/// parameters. The server's end does not return: the shell text runs the program, reports when the program
/// listens, and ends the program when standard input ends.
pub(crate) const END: &str = r#"for word; do
  shift
  if [[ $word == *'{peer}'* ]]; then
    [[ $BURNIN_PAIR_INDEX == 0 ]] || set -- "$@" "${word//'{peer}'/"$BURNIN_PEER"}"
  else
    set -- "$@" "$word"
  fi
done
if [[ $BURNIN_PAIR_INDEX == 0 ]]; then
  # A process and its descendants.
  family() { local child; printf '%s\n' "$1"; for child in $(cat "/proc/$1/task/"*/children 2>/dev/null); do family "$child"; done; }
  # Whether one of them listens for TCP connections.
  listens() {
    local process file inode state
    for process in $(family "$1"); do
      for file in "/proc/$process/fd/"*; do
        file=$(readlink "$file" 2>/dev/null)
        [[ $file == socket:* ]] || continue
        while read -r _ _ _ state _ _ _ _ _ inode _; do
          [[ $state == 0A && $file == "socket:[$inode]" ]] && return
        done < <(cat /proc/net/tcp /proc/net/tcp6 2>/dev/null)
      done
    done
    return 1
  }
  exec 3<&0
  "$@" 3<&- </dev/null &
  program=$!
  # Programs that wait by other means than TCP get 5 s to start.
  for try in {1..50}; do
    kill -0 "$program" 2>/dev/null || break
    listens "$program" && break
    sleep 0.1
  done
  printf 'burnin pair: ready\n'
  {
    while read -r _ <&3; do :; done
    for process in $(family "$program"); do kill -TERM "$process" 2>/dev/null; done
    sleep 2
    for process in $(family "$program"); do kill -KILL "$process" 2>/dev/null; done
  } >/dev/null 2>&1 &
  watch=$!
  wait "$program"
  status=$?
  kill "$watch" 2>/dev/null
  exit "$status"
fi
"#;

/// The shell text of a job that runs all pairs on one machine, where each node is a name and a loopback address. `end`: shell text of one
/// end ([`crate::program::start`]).
pub fn on_one_machine(nodes: &[String], rounds: u32, takes_evidence: bool, end: &str) -> String {
    let takes_evidence = u8::from(takes_evidence);
    let names: Vec<_> = nodes.iter().map(|node| quote(node)).collect();
    let addresses: Vec<_> =
        (0..nodes.len()).map(|at| format!("127.0.{}.{}", at / 250 % 256, at % 250 + 1)).collect();
    format!(
        r#"set -u
pairs=$(mktemp -d) || exit 73
trap 'rm -rf -- "$pairs"' EXIT
end={}
argv=("$@")
nodes=({})
addresses=({})
run_end() {{ BURNIN_NODE_NAME=${{nodes[$1]}} bash -c "$end" end "${{argv[@]}}"; }}
{RUN_PAIRS}run_pairs {rounds} {takes_evidence}
"#,
        quote(end),
        names.join(" "),
        addresses.join(" "),
    )
}

#[cfg(test)]
mod tests {
    use std::{fs, process::Command};

    use super::*;

    /// Runs pairs of `nodes` nodes on this machine; the program is `program`, in bash.
    fn run(nodes: usize, rounds: u32, program: &str) -> (String, Option<i32>) {
        let folder = tempfile::tempdir().unwrap();
        let end = folder.path().join("end.sh");
        fs::write(&end, format!("{END}exec \"$@\"\n")).unwrap();
        let script = format!(
            "set -u\npairs={}\nnodes=($(printf 'n%d ' $(seq 0 {})))\naddresses=(\"${{nodes[@]/#/a-}}\")\n\
             run_end() {{ NODE=${{nodes[$1]}} bash {} bash -c '{program}' program '{{peer}}'; }}\n{RUN_PAIRS}\nrun_pairs {rounds}",
            folder.path().display(),
            nodes - 1,
            end.display()
        );
        let output = Command::new("timeout").args(["60", "bash", "-c", &script]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        (String::from_utf8(output.stdout).unwrap(), output.status.code())
    }

    #[test]
    fn the_shell_runs_the_rounds_that_the_judge_expects() {
        for (nodes, most) in [(2, 0), (3, 0), (4, 0), (5, 2), (6, 1)] {
            let (text, status) = run(nodes, most, "true");
            assert_eq!(status, Some(0), "{text}");
            let rounds = model::pair_rounds(nodes, (most > 0).then_some(most));
            let expected: Vec<_> =
                rounds.concat().iter().map(|(a, b)| format!("burnin pair: n{b} to n{a}")).collect();
            let ran: Vec<_> = text.lines().filter(|line| line.starts_with("burnin pair: n")).collect();
            assert_eq!(ran, expected, "{nodes} {most}");
        }
    }

    #[test]
    fn a_client_gets_the_address_of_its_server_and_the_servers_output_is_marked() {
        let (text, status) = run(2, 0, "echo \"$NODE $BURNIN_PAIR_INDEX of $#: ${1:-}\"");
        let expected = "burnin pairs: n0 n1\nburnin pair: n1 to n0\nn1 1 of 1: a-n0\n\nburnin pair ended: 0\n\
                        server: n0 0 of 0: \nserver: burnin pair: ready\n";
        // This server ends immediately, so its line may come before or after the line `burnin pair: ready`.
        let other = expected
            .replace("server: n0 0 of 0: \nserver: burnin", "server: burnin")
            .replace("ready\n", "ready\nserver: n0 0 of 0: \n");
        assert!(text == expected || text == other, "{text}");
        assert_eq!(status, Some(0));
    }

    /// Runs `script`. Its program appends a line `pair` to the file `steps`, and a stand-in for `dmesg` appends a line
    /// `evidence`. Returns the output and these lines.
    fn steps(script: &str) -> (String, Vec<String>) {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("steps");
        let dmesg = folder.path().join("dmesg");
        fs::write(&dmesg, format!("#!/bin/bash\necho evidence >>{}\necho '[ 1.0] booted'\n", file.display()))
            .unwrap();
        fs::set_permissions(&dmesg, fs::Permissions::from_mode(0o755)).unwrap();
        let program = format!("echo pair >>{}", file.display());
        let output = Command::new("timeout")
            .env("PATH", format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap()))
            .args(["60", "bash", "-c", script, "burnin", "bash", "-c", &program])
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(
            (output.status.code(), String::from_utf8_lossy(&output.stderr)),
            (Some(0), "".into()),
            "{text}"
        );
        let lines = fs::read_to_string(&file).unwrap().lines().map(str::to_owned).collect();
        (text, lines)
    }

    /// Shell text of one end, which can collect evidence.
    fn end() -> String {
        format!("{END}{}exec \"$@\"\n", crate::evidence::while_input_is_open())
    }

    /// Each node's evidence is collected once, by a process that exists during all pairs.
    #[test]
    fn evidence_of_each_node_is_taken_before_the_first_and_after_the_last_pair() {
        let nodes = ["n0", "n1", "n2"].map(str::to_owned);
        let (text, steps) = steps(&on_one_machine(&nodes, 0, true, &end()));
        // One line for each of three nodes, two lines for each of three pairs, then one line for each node again.
        assert_eq!(steps, [vec!["evidence"; 3], vec!["pair"; 6], vec!["evidence"; 3]].concat());
        for node in &nodes {
            for moment in ["before", "after"] {
                let end = format!("\nburnin evidence: {node} {moment} end complete\n");
                assert_eq!(text.matches(&end).count(), 1, "{node} {moment}: {text}");
            }
        }
        assert_eq!(text.matches("burnin pair ended: 0").count(), 3);
        let last = text.rfind("burnin pair ended: ").unwrap();
        assert!(!text[..last].contains("burnin evidence: "), "the sections of the pairs have no evidence");
    }

    #[test]
    fn the_script_collects_evidence_only_if_required() {
        let (text, steps) = steps(&on_one_machine(&["n0", "n1"].map(str::to_owned), 0, false, &end()));
        assert_eq!(steps, ["pair", "pair"]);
        assert!(!text.contains("burnin evidence"), "{text}");
    }

    /// Runs a pair of nodes with timeouts of 3 s instead of 10 s; the shell text `collector` collects their evidence. Returns the output.
    fn collected(collector: &str) -> String {
        let end =
            format!("if [[ $BURNIN_PAIR_INDEX == evidence ]]; then\n{collector}\nfi\n{END}exec \"$@\"\n");
        let script = on_one_machine(&["n0", "n1"].map(str::to_owned), 0, true, &end);
        assert_eq!(script.matches("{1..100}").count(), 2);
        let script = script.replace("{1..100}", "{1..30}");
        let output =
            Command::new("timeout").args(["60", "bash", "-c", &script, "burnin", "true"]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(
            (output.status.code(), String::from_utf8_lossy(&output.stderr)),
            (Some(0), "".into()),
            "{text}"
        );
        text
    }

    /// The collector of node `n1` completes its evidence of the phase `before` only after the pair has begun.
    #[test]
    fn evidence_before_the_job_is_reported_as_late_and_not_printed_if_the_pairs_have_begun() {
        let text = collected(
            "say() { printf 'burnin evidence: %s %s\\n' \"$BURNIN_NODE_NAME\" \"$1\"; }\n\
             [[ $BURNIN_NODE_NAME == n0 ]] || { cat; say 'before kernel lines 7'; }\n\
             say 'before end complete'; cat; say 'after end complete'; exit",
        );
        let lines: Vec<_> = text.lines().filter(|line| line.starts_with("burnin evidence: ")).collect();
        let expected = [
            "burnin evidence: n0 before end complete",
            "burnin evidence: n0 after end complete",
            "burnin evidence: n1 before late it was not complete when the pairs began",
            "burnin evidence: n1 after end complete",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_hanging_process_that_collects_evidence_is_ended_with_its_descendants() {
        let folder = tempfile::tempdir().unwrap();
        let hangs = folder.path().join("hangs");
        fs::write(&hangs, "trap '' TERM\nsleep 300\nsleep 300\n").unwrap();
        let text = collected(&format!(
            "printf 'burnin evidence: %s before end complete\\n' \"$BURNIN_NODE_NAME\"\nbash {} & wait",
            hangs.display()
        ));
        assert_eq!(text.matches(" before end complete\n").count(), 2, "{text}");
        let left = || {
            let found = Command::new("pgrep").args(["-f", &folder.path().display().to_string()]).output();
            String::from_utf8(found.unwrap().stdout).unwrap()
        };
        // A killed process may exist for some milliseconds more.
        for _ in 0..50 {
            if left().is_empty() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        assert_eq!(left(), "");
    }

    #[test]
    fn the_highest_exit_status_of_both_ends_is_kept() {
        assert_eq!(run(2, 0, "exit $((BURNIN_PAIR_INDEX * 7))").1, Some(7), "the exit status of the client");
        assert_eq!(
            run(2, 0, "[ $BURNIN_PAIR_INDEX = 1 ] || exit 5").1,
            Some(5),
            "the exit status of the server"
        );
        let (text, status) = run(3, 0, "[ \"$NODE\" != n2 ] || exit 3");
        assert_eq!(
            (status, text.matches("ended: 3").count(), text.matches("ended: 0").count()),
            (Some(3), 2, 1)
        );
    }

    #[test]
    fn a_client_starts_when_its_server_listens_and_a_server_is_ended_after_its_client() {
        // The server starts to listen after 1 s, and would serve for 30 s.
        let serve = "import socket, time; time.sleep(1); s = socket.create_server((\"127.0.0.1\", 0)); \
                     open(\"port\", \"w\").write(str(s.getsockname()[1])); time.sleep(30)";
        let ask = "import socket; socket.create_connection((\"127.0.0.1\", int(open(\"port\").read()))); print(\"connected\")";
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            fs::write(folder.path().join(name), text).unwrap();
        };
        file("serve.py", serve);
        file("ask.py", ask);
        let program = format!(
            "cd {}; if [ $BURNIN_PAIR_INDEX = 0 ]; then python3 serve.py; else python3 ask.py; fi",
            folder.path().display()
        );
        let started = std::time::Instant::now();
        let (text, status) = run(2, 0, &program);
        assert_eq!(status, Some(0), "{text}");
        assert!(text.contains("\nconnected\n"), "{text}");
        assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
        let left = Command::new("pgrep").args(["-f", &folder.path().display().to_string()]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&left.stdout), "");
    }
}
