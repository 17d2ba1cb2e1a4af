#!/usr/bin/env bash
# Tests the hosts scheduler with real sshd and real Open MPI on four ssh hosts in namespaces; then a complete run on them.
set -euo pipefail
skip() { echo "skipped: jobs on ssh hosts, because $*"; exit 77; }
[[ $(id -u) == 0 ]] || skip "simulated hosts need root"
. .ci/beds.sh
installed() { type -P mpirun orted ssh sshd sudo ip nsenter pgrep python3 >/dev/null; }
need_packages installed hosts
need_network_namespaces
need_overlays

. .ci/built.sh
tests=$(test_program crates/clusters/hosts hosts)
bed=$(mktemp -d) work=/var/tmp/burnin-hosts-$$
export BED_DIR=$bed/machines BED_HOSTS="h1 h2 h3 h4"
trap 'bash tests/testbed/ansible/stop.sh; rm -rf "$bed" "$work"' EXIT
mkdir "$BED_DIR"
chmod 755 "$bed"
bash tests/testbed/ansible/start.sh
echo "4 ssh hosts, $(mpirun --version | sed -n 1p)"
"$BED_DIR/here" env BURNIN_HOSTS_BED="$BED_DIR" RUST_BACKTRACE=0 "$tests" --ignored --test-threads=1

echo "a complete run on the hosts"
python3 - "$BED_DIR" >"$bed/hosts.txt" <<'SCRIPT'
import sys
for host in ["h1", "h2", "h3", "h4"]:
    print(open(f"{sys.argv[1]}/pid/{host}.address").read().strip(), "slots=1")
SCRIPT
cp -r workflows "$bed/workflows"
sed -i "s#^        hostfile: .*#        hostfile: $bed/hosts.txt\n        ssh_options: [UserKnownHostsFile=$bed/known_hosts, StrictHostKeyChecking=accept-new]#" "$bed/workflows/hosts.yaml"
# Lowers the minimum bandwidth, because other gates load this host at the same time.
sed -i 's/busbw: 0.05/busbw: 0.005/' "$bed/workflows/criteria/this-machine.yaml"
burnin=("$BED_DIR/here" "$programs/burnin")
settings=(--set cluster.existing.system.hosts.user=ops --set cluster.existing.system.hosts.identity_file="$BED_DIR/ssh/id"
  --set cluster.existing.system.hosts.work_folder="$work")
timeout 600 "${burnin[@]}" run "$bed/workflows/hosts.yaml" --data "$bed/data" "${settings[@]}"

echo "a run that locates the host with a slow link"
. "$BED_DIR/up" # prefix
for link in "$prefix-h3 eth0" "$prefix-sw ph3"; do
  read -r namespace device <<<"$link"
  # The limit is far below the rate of unshaped links: while other gates run, unshaped links reach a tenth of their idle rate.
  tc -n "$namespace" qdisc replace dev "$device" root tbf rate 10mbit burst 64kb latency 1s
done
sed 's/size_bytes: 4M/size_bytes: 1M/' tests/testbed/links/criteria.yaml >"$bed/workflows/criteria/links.yaml"
code=0
timeout 1200 "${burnin[@]}" run "$bed/workflows/hosts.yaml" --data "$bed/located" "${settings[@]}" --set benchmark.workload.min_bytes=64K \
  --set benchmark.workload.max_bytes=1M --set benchmark.workload.step_factor=4 --set benchmark.workload.iterations=3 \
  --set benchmark.workload.warmup_iterations=1 --set benchmark.criteria=criteria/links.yaml --set locate.tolerance=0.95 >"$bed/report" || code=$?
bad=$(<"$BED_DIR/pid/h3.address")
if [[ $code != 1 ]] || ! grep -qF "bad node: $bad, " "$bed/report"; then
  cat "$bed/report"
  find "$bed/located" -name located.json -exec cat {} +
  echo "a slow link: expected exit code 1 and the bad node $bad, found exit code $code"
  exit 1
fi
grep -F "bad node: $bad, " "$bed/report"
tc -n "$prefix-h3" qdisc del dev eth0 root
tc -n "$prefix-sw" qdisc del dev ph3 root

echo "a soak on the hosts that is killed and resumed"
. .ci/soak.sh
soak_across_a_kill "$bed/soak" "$bed/workflows/hosts.yaml" "${settings[@]}"

echo "hardware evidence of each host before and after a job"
. .ci/evidence.sh
evidence_of_each_node "$bed/evidence" "$bed/workflows/hosts.yaml" "${settings[@]}"
bash tests/testbed/ansible/stop.sh
