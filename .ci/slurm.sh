#!/usr/bin/env bash
# Tests the Slurm scheduler on a real Slurm of four nodes, without and with accounting; and on one deployed by a run.
set -euo pipefail
skip() { echo "skipped: the Slurm scheduler on a real Slurm, because $*"; exit 77; }
[[ $(id -u) == 0 ]] || skip "Slurm's daemons need root"
. .ci/beds.sh
installed() { type -P slurmctld slurmd slurmdbd munged ip nsenter mariadbd >/dev/null; }
need_packages installed slurm
need_network_namespaces

. .ci/built.sh
. .ci/soak.sh
. .ci/evidence.sh
tests=$(test_program crates/clusters/slurm slurm)
bed=$(mktemp -d)
export BED_DIR=$bed/slurm
mkdir "$BED_DIR"
# The users of all jobs must be able to read the shared folder.
chmod 755 "$bed" "$BED_DIR"
trap 'bash tests/testbed/slurm/stop.sh; rm -rf "$bed"' EXIT
on_controller() { "$BED_DIR/on" ctl env BURNIN_SLURM_BED="$BED_DIR" RUST_BACKTRACE=0 "$@"; }

for accounts in 0 1; do
  echo "Slurm $(slurmctld -V | cut -d' ' -f2) with 4 nodes, accounting: $accounts"
  BED_ACCT=$accounts bash tests/testbed/slurm/start.sh
  # Tests that depend on accounting: conformance, and results of purged jobs.
  filter=(); [[ $accounts == 0 ]] || filter=(conforms purged scancel prolog impossible)
  filters_match "$tests" "${filter[@]}"
  on_controller "$tests" --ignored --test-threads=1 "${filter[@]}"
  # Resets the nodes after the last test.
  on_controller scontrol update nodename='n[1-4]' state=resume >/dev/null 2>&1 || true
  mkdir "$bed/shared-$accounts"
  on_controller timeout 400 "$programs/burnin" run workflows/slurm.yaml --data "$bed/data-$accounts" \
    --set cluster.existing.system.slurm.shared_folder="$bed/shared-$accounts"
  # The image has no program for this collective: Slurm's messages must cause neither a failed verdict nor a suspect.
  code=0
  on_controller timeout 400 "$programs/burnin" run workflows/slurm.yaml --data "$bed/data-$accounts" --output json \
    --set cluster.existing.system.slurm.shared_folder="$bed/shared-$accounts" \
    --set benchmark.workload.collective=reduce >"$bed/not-started" || code=$?
  cat "$bed/not-started"
  run=$(sed -n 's/.*"run":"\([^"]*\)".*/\1/p' "$bed/not-started")
  "$programs/burnin" show "$run" --data "$bed/data-$accounts" >"$bed/shown"
  if [[ $code != 2 ]] || ! grep -q NOT_STARTED "$bed/shown" || grep -q suspects "$bed/not-started"; then
    cat "$bed/shown"
    echo "a missing program: expected NOT_STARTED, exit code 2 and no suspect, found exit code $code"
    exit 1
  fi
  if [[ $accounts == 0 ]]; then
    echo "idle nodes: measured while they are idle; exit code 4 while another job uses them"
    idle=(run workflows/idle-slurm.yaml --data "$bed/data-$accounts" --set cluster.existing.system.slurm.shared_folder="$bed/shared-$accounts")
    on_controller timeout 400 "$programs/burnin" "${idle[@]}"
    on_controller "$programs/burnin" nodes --all --data "$bed/data-$accounts" >"$bed/nodes" || true
    if grep -q any- "$bed/nodes" || ! grep -Eq '^ *n[1-4] ' "$bed/nodes"; then
      cat "$bed/nodes"
      echo "nodes that Slurm chose: expected nodes n1 to n4 in the list of nodes, found the list above"
      exit 1
    fi
    other=$(on_controller sbatch --parsable --nodes=3 --exclusive --output=/dev/null --wrap 'sleep 120')
    until [[ $(on_controller squeue --noheader --jobs="$other" --format=%T) == RUNNING ]]; do sleep 0.2; done
    code=0
    on_controller timeout 400 "$programs/burnin" "${idle[@]}" >"$bed/idle" || code=$?
    cat "$bed/idle"
    [[ $code == 4 ]] && grep -q NO_IDLE_NODES "$bed/idle" || { echo "three busy nodes: expected NO_IDLE_NODES and exit code 4, found exit code $code"; exit 1; }
    on_controller scancel "$other"

    echo "a soak that is killed, preempted and resumed"
    disturb() { on_controller sbatch --wait --partition=main --nodes=4 --exclusive --output=/dev/null --wrap 'sleep 2' >/dev/null; }
    burnin=("$BED_DIR/on" ctl "$programs/burnin")
    cp -r workflows "$bed/workflows"
    soak_across_a_kill "$bed/data-soak" "$bed/workflows/slurm.yaml" --set cluster.existing.system.slurm.partition=idle \
      --set cluster.existing.system.slurm.shared_folder="$bed/shared-$accounts"

    echo "hardware evidence of each node before and after a job"
    evidence_of_each_node "$bed/data-evidence" "$bed/workflows/slurm.yaml" --set cluster.existing.system.slurm.shared_folder="$bed/shared-$accounts"
  fi
  bash tests/testbed/slurm/stop.sh
  mkdir -p "$BED_DIR"
done

echo "Slurm deployed and destroyed by build steps"
# Stand-ins for Slurm's commands run the real commands on the controller of the cluster that the run deploys.
mkdir "$bed/bin"
for command in sbatch squeue scontrol sacct scancel sinfo; do
  printf '#!/bin/sh\nexec "$(cat %q)/on" ctl /usr/bin/%s "$@"\n' "$bed/deployed" "$command" >"$bed/bin/$command"
  chmod 755 "$bed/bin/$command"
done
PATH=$bed/bin:$PATH timeout 600 "$programs/burnin" run tests/testbed/deployed/workflow.yaml \
  --data "$bed/data-deployed" --set cluster.rent.deployed.deploy.substitutions._SLURM="$bed/deployed"

echo "complete runs over shaped links: healthy, one slow node, one rank that corrupts data, one node cut off"
mkdir -p "$BED_DIR"
# A saturated link delays the responses of its node.
BED_SILENT=30 bash tests/testbed/slurm/start.sh
BURNIN=$programs/burnin WORK=$bed/links bash tests/testbed/links/run.sh
