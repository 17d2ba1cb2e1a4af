//! Renders the program of a job as words and as shell text. Pure.

use model::{Every, Program, Workload};

use crate::{
    JobSpec, evidence, pairs,
    shell::{LOCAL_RANK, quote},
};

/// Program and arguments. `folder`: the image or the cluster's programs, if any; `slots`: number of GPUs of each process.
///
/// The words of a program other than nccl-tests are unchanged: [`prelude`] adds the folder to its `PATH`.
pub fn words(program: &Program, folder: Option<&str>, slots: u32) -> Vec<String> {
    match program {
        Program::Command(command) => command.argv.clone(),
        Program::NcclTests(workload) => {
            let name = format!("{}_perf", workload.collective.as_str());
            let path =
                folder.map_or(name.clone(), |folder| format!("{}/{name}", folder.trim_end_matches('/')));
            std::iter::once(path).chain(arguments(workload, slots)).collect()
        }
    }
}

/// Whether the program is started once on each node, and not by the launcher of the ranks.
pub fn is_per_node(program: &Program) -> bool {
    program.command().is_some_and(|command| command.every == Every::Node)
}

/// Maximum number of rounds of a program that is started on pairs of nodes; 0: no maximum. `None` for other programs.
pub fn rounds_of_pairs(program: &Program) -> Option<u32> {
    let command = program.command().filter(|command| command.every == Every::Pair)?;
    Some(command.rounds.unwrap_or(0))
}

/// Prints the host name and the node name if they differ, as in a pod: nccl-tests prints the host name; evidence, settings and other checks
/// use the node name. The crate `measure` reads the line and removes it from the log.
fn host() -> String {
    format!(
        "if [[ {LOCAL_RANK} == 0 && -n ${{BURNIN_NODE_NAME:-}} ]] && burnin_host=$(hostname) && \
         [[ $burnin_host != \"$BURNIN_NODE_NAME\" ]]; then\n  \
         printf 'burnin host: %s %s\\n' \"$burnin_host\" \"$BURNIN_NODE_NAME\"\nfi\n"
    )
}

/// Whether the job collects evidence of each node for a program that runs on pairs of nodes ([`pairs::RUN_PAIRS`]).
pub fn takes_evidence_of_pairs(job: &JobSpec) -> bool {
    job.evidence && rounds_of_pairs(&job.program).is_some()
}

/// Shell text (bash) that a process executes last: [`prelude`], then the program in the positional parameters. If the job collects
/// evidence, this process collects that of its node. For pairs of nodes a separate process on each node collects it, because a node runs
/// many pairs in sequence.
pub fn start(job: &JobSpec, folder: Option<&str>) -> String {
    const EXEC: &str = "exec \"$@\"\n";
    let run = match (job.evidence, rounds_of_pairs(&job.program)) {
        (true, None) => evidence::around_program(),
        (true, Some(_)) => evidence::while_input_is_open() + EXEC,
        (false, _) => EXEC.to_owned(),
    };
    // Programs that run on each node or on pairs already print node names, so they need no line with the host name.
    let is_per_rank = job.program.command().is_none_or(|command| command.every == Every::Rank);
    let host = if is_per_rank { host() } else { String::new() };
    format!("{host}{}{run}", prelude(&job.program, folder))
}

/// Shell text (bash) that a process executes directly before a program other than nccl-tests; empty for nccl-tests. The
/// environment variable `BURNIN_NODE_NAME` contains the name of the node if it differs from the host name.
pub fn prelude(program: &Program, folder: Option<&str>) -> String {
    if program.command().is_none() {
        return String::new();
    }
    let path = folder.map_or_else(String::new, |folder| format!("export PATH={}:\"$PATH\"\n", quote(folder)));
    let node = match program.command().map(|command| command.every) {
        Some(Every::Node) => "printf 'burnin node: %s\\n' \"${BURNIN_NODE_NAME:-$(hostname)}\"\n",
        Some(Every::Pair) => pairs::END,
        Some(Every::Rank) | None => "",
    };
    format!("{path}{node}")
}

/// Arguments in nccl-tests' own flags.
fn arguments(workload: &Workload, slots: u32) -> Vec<String> {
    let flags = [
        ("-b", workload.min_bytes.to_string()),
        ("-e", workload.max_bytes.to_string()),
        workload.step(),
        ("-n", workload.iterations.to_string()),
        ("-w", workload.warmup_iterations.to_string()),
        ("-c", u8::from(workload.check).to_string()),
        ("-g", slots.to_string()),
    ];
    let datatype = workload.datatype.map(|datatype| ("-d", datatype.as_str().to_owned()));
    flags
        .into_iter()
        .chain(datatype)
        .chain(workload.extra_args.flags())
        .flat_map(|(flag, value)| [flag.to_owned(), value])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(variables: &[(&str, &str)]) -> String {
        let mut bash = std::process::Command::new("bash");
        bash.env_clear().env("PATH", std::env::var("PATH").unwrap()).envs(variables.iter().copied());
        let output = bash.args(["-euc", &host()]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn the_first_process_of_a_node_prints_its_host_if_the_names_differ() {
        let output = std::process::Command::new("hostname").output().unwrap();
        let own = String::from_utf8(output.stdout).unwrap().trim_end().to_owned();
        let node = ("BURNIN_NODE_NAME", "node-of-a-pod");
        assert_eq!(printed(&[node]), format!("burnin host: {own} node-of-a-pod\n"));
        assert_eq!(printed(&[node, ("BURNIN_LOCAL_RANK", "1")]), "");
        let same = own.split('.').next().unwrap();
        assert_eq!(printed(&[("BURNIN_NODE_NAME", same)]) + &printed(&[]), "");
    }
}
