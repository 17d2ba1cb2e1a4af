#!/usr/bin/env bash
# Tests the Kubernetes scheduler on a real API server, with only the permissions of workflows/a4-gke-testbed/rbac.yaml.
# kube-apiserver and the definitions of JobSet and Kueue are not packaged: put kube-apiserver, kube-controller-manager and
# crds/*.yaml into .tools/kubernetes, or set BURNIN_KUBERNETES. If the folder also contains kube-scheduler, kubelet, jobset,
# kueue and webhooks/{jobset,kueue}.yaml, the gate also tests complete runs and the A4 test bed's chart on nodes with real pods.
set -euo pipefail
skip() { echo "skipped: the Kubernetes scheduler on a real API server, because $*"; exit 77; }
KUBERNETES=$(realpath -m "${BURNIN_KUBERNETES:-.tools/kubernetes}")
export KUBERNETES
for part in kube-apiserver kube-controller-manager crds; do
  [[ -e $KUBERNETES/$part ]] || skip "$KUBERNETES/$part is missing"
done
[[ $(id -u) == 0 ]] || skip "network namespaces need root"
type -P kubectl >/dev/null || skip "kubectl is missing"
if ! type -P etcd socat openssl ip nsenter curl >/dev/null; then
  type -P apt-get >/dev/null || skip "etcd, socat or another program is missing, and apt-get is not available"
  export DEBIAN_FRONTEND=noninteractive
  packages=(etcd-server socat openssl iproute2 util-linux curl)
  { apt-get update -qq && apt-get install -y -qq --no-install-recommends "${packages[@]}"; } >/dev/null ||
    skip "these packages cannot be installed: ${packages[*]}"
fi
probe=bedprobe$$
ip netns add "$probe" 2>/dev/null || skip "network namespaces cannot be created here"
ip netns del "$probe"

. .ci/built.sh
tests=$(test_program crates/clusters/kubernetes kubernetes)
BED_DIR=$(mktemp -d)
export BED_DIR
trap 'bash tests/testbed/kubernetes/stop.sh; rm -rf "$BED_DIR"' EXIT
bash tests/testbed/kubernetes/start.sh
inside() { nsenter --net="/run/netns/$(cat "$BED_DIR/namespace")" "$@"; }
inside kubectl --kubeconfig "$BED_DIR/admin" apply --server-side --filename workflows/a4-gke-testbed/rbac.yaml
inside env BURNIN_KUBERNETES_BED="$BED_DIR" RUST_BACKTRACE=0 timeout 400 "$tests" --ignored --test-threads=1
bash tests/testbed/kubernetes/stop.sh

without() { echo "skipped: complete runs on nodes with real pods, because $*"; exit 77; }
for part in kube-scheduler kubelet jobset kueue webhooks/jobset.yaml webhooks/kueue.yaml; do
  [[ -e $KUBERNETES/$part ]] || without "$KUBERNETES/$part is missing"
done
type -P apt-get dpkg-deb >/dev/null || without "the nodes' images are built from Debian packages, which needs apt-get and dpkg-deb"
if ! type -P containerd runc python3 >/dev/null || [[ ! -e /usr/lib/cni/bridge ]]; then
  packages=(containerd runc containernetworking-plugins python3-minimal)
  { apt-get update -qq && apt-get install -y -qq --no-install-recommends "${packages[@]}"; } >/dev/null ||
    without "these packages cannot be installed: ${packages[*]}"
fi
[[ -d /sys/fs/cgroup/memory ]] || without "the nodes need cgroups version 1"
export BED_NODES=3 BED_PROGRAM=$BED_DIR/all_reduce_perf BED_NODE_PERF=$BED_DIR/node_perf
rm -rf "$BED_DIR" && mkdir "$BED_DIR"
rustc --edition 2024 -O -o "$BED_PROGRAM" workflows/quickstart/collective_perf.rs
rustc --edition 2024 -O -o "$BED_NODE_PERF" workflows/quickstart/node_perf.rs
bash tests/testbed/kubernetes/start.sh
inside kubectl --kubeconfig "$BED_DIR/admin" apply --server-side --filename workflows/a4-gke-testbed/rbac.yaml
bash tests/testbed/kubernetes/testbed.sh
export BURNIN_KUBERNETES_BED=$BED_DIR
status=0
# Tests the A4 test bed's chart, installed with Helm's engine.
if . .ci/helm.sh; then
  inside env BURNIN="$programs/burnin" PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=tests/chart timeout 900 "$venv/bin/python" -m unittest -v on_bed
else
  echo "skipped: the A4 test bed's chart on nodes with real pods, because $helm"
  status=77
fi
tests=$(test_program cli all)
inside env RUST_BACKTRACE=0 timeout 1500 "$tests" --ignored --test-threads=1 real_kubernetes::
exit "$status"
