#!/usr/bin/env bash
# Deploys Slurm on simulated hosts with the playbooks of workflows/dgx-slurm-perf, with real ssh, Ansible and Slurm, runs a
# benchmark, and releases everything. First it checks that faults of the hosts are reported.
set -euo pipefail
skip() { echo "skipped: Slurm deployed with Ansible, because $*"; exit 77; }
[[ $(id -u) == 0 ]] || skip "simulated hosts need root"
. .ci/beds.sh
installed() { type -P slurmctld slurmd munged sshd ssh sudo ip nsenter pgrep python3 git make mpicc >/dev/null &&
  [[ -n $(ldconfig -p | grep -F libmpi.so.40) ]] && compgen -G '/usr/lib/*/pmix2/lib/libpmix.so' >/dev/null; }
need_packages installed ansible
need_network_namespaces
need_overlays

# Ansible is installed in the project's folder, in the version that the workflow pins, with a compatible ansible-lint.
root=$PWD flow=workflows/dgx-slurm-perf tools=$PWD/.tools/ansible
wanted=$(sha256sum "$flow/requirements.txt" .ci/ansible.sh | sha256sum)
if [[ $(cat "$tools/installed" 2>/dev/null) != "$wanted" ]]; then
  { python3 -m venv --clear "$tools" &&
    "$tools/bin/pip" install --quiet --disable-pip-version-check --requirement "$flow/requirements.txt" ansible-lint==25.12.2; } ||
    skip "Ansible cannot be installed"
  echo "$wanted" >"$tools/installed"
fi
export PATH=$tools/bin:$PATH ANSIBLE_NOCOLOR=1 PYTHONWARNINGS=ignore
bed=$(mktemp -d)
# Keeps Ansible's own files out of the home folder.
export BED_DIR=$bed/machines ANSIBLE_HOME=$bed/ansible
trap 'bash tests/testbed/ansible/stop.sh; rm -rf "$bed"' EXIT
# The lint runs on a copy, because it creates a folder next to its input.
cp -r "$flow" "$bed/lint"
(cd "$bed/lint" && ansible-lint --nocolor -q -c .ansible-lint playbooks)
for play in "$flow"/playbooks/*.yml; do
  ANSIBLE_CONFIG=$flow/ansible.cfg ANSIBLE_STDOUT_CALLBACK=default ansible-playbook --syntax-check -i "$flow/inventory.example" "$play" >/dev/null
done

. .ci/built.sh
tests=$(test_program crates/ansible-events bare_metal)
mkdir "$BED_DIR" "$bed/home"
chmod 755 "$bed"
bash tests/testbed/ansible/start.sh
nccl_tests() {
  bash tests/testbed/ansible/nccl_tests.sh "$BED_DIR/nccl-tests" workflows/quickstart/collective_perf.rs >"$BED_DIR/nccl-tests.commit"
  # git serves a repository only to the user who owns it.
  chown -R 10007 "$BED_DIR/nccl-tests"
}
nccl_tests
# Creates a simulated cloud that stores the agent's program and an ssh key.
mkdir -p "$BED_DIR"/bin "$BED_DIR"/cloud/{gcs/programs,secrets}
strip -o "$BED_DIR/cloud/gcs/programs/burnin-agent" "$programs/burnin-agent"
cp "$BED_DIR/ssh/id" "$BED_DIR/cloud/secrets/dgx-ssh-1"
printf '#!/bin/sh\nTOOLKIT_WORLD=%q exec %q "$@"\n' "$BED_DIR/cloud" "$root/tests/testbed/toolkit/bin/gcloud" >"$BED_DIR/bin/gcloud"
chmod 755 "$BED_DIR/bin/gcloud"
echo "5 hosts, $(ansible-playbook --version | sed -n 1p), Slurm $(slurmctld -V | cut -d' ' -f2)"
try() { filters_match "$tests" "$@" && "$BED_DIR/here" env HOME="$bed/home" PATH="$BED_DIR/bin:$PATH" \
  BURNIN_ANSIBLE_BED="$BED_DIR" BURNIN_STORAGE_STANDIN="$programs/storage-standin" RUST_BACKTRACE=0 "$tests" --ignored --test-threads=1 "$@"; }

try parameters deepops wrong
try a_cluster_is_provisioned
# Runs before the benchmark, because the benchmark creates job folders that belong to root.
try the_agent_runs_a_job
# Runs the benchmark on the deployed cluster, with the settings in cluster.json.
mapfile -t settings < <(python3 - "$BED_DIR/cluster.json" <<'SCRIPT'
import json, sys
for name, value in json.load(open(sys.argv[1]))["slurm"].items():
    print(f"--set\ncluster.existing.system.slurm.{name}={value}")
SCRIPT
)
here=(env --chdir="$root" PATH="$PATH" RUST_BACKTRACE=0)
for name in CARGO_HOME RUSTUP_HOME RUSTUP_TOOLCHAIN; do [[ -z ${!name:-} ]] || here+=("$name=${!name}"); done
"$BED_DIR/on" login "${here[@]}" timeout 400 "$programs/burnin" run workflows/slurm.yaml --data /root/burnin-data "${settings[@]}"
if type -P systemd-analyze >/dev/null; then "$BED_DIR/on" login systemd-analyze verify /etc/systemd/system/burnin-agent-dgx.service; fi
try the_cluster_is_released
# Every recorded call of gcloud must be valid for the SDK.
python3 - "$BED_DIR/cloud/calls.jsonl" <<'SCRIPT'
import json, sys
sys.path.insert(0, "tests/delivery")
import sdk
for line in open(sys.argv[1], encoding="utf-8"):
    sdk.check(json.loads(line))
SCRIPT

echo "the complete workflow as one run, on new hosts"
bash tests/testbed/ansible/stop.sh
mkdir "$BED_DIR"
bash tests/testbed/ansible/start.sh
nccl_tests
cp -r workflows "$bed/workflows"
sed -e "s#/the/bed/#$BED_DIR/#" -e "s#/the/commit#$(cat "$BED_DIR/nccl-tests.commit")#" tests/testbed/ansible/values.yaml >"$bed/workflows/bed.yaml"
cp "$BED_DIR/inventory" "$bed/workflows/dgx-slurm-perf/inventory"
# The test bed's hosts can access only $BED_DIR.
mv "$bed/workflows" "$BED_DIR/workflows"
"$BED_DIR/on" login "${here[@]}" ANSIBLE_HOME=/root/ansible timeout 4000 "$programs/burnin" run "$BED_DIR/workflows/dgx-slurm-perf.yaml" --values "$BED_DIR/workflows/bed.yaml" --data /root/burnin-whole
bash tests/testbed/ansible/stop.sh
