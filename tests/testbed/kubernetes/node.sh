#!/usr/bin/env bash
# Starts node NUMBER of the bed, or restarts its ended processes: containerd and kubelet in the node's network namespace.
#   node.sh NUMBER
set -euo pipefail
bed=${BED_DIR:?} kubernetes=$(realpath "${KUBERNETES:?}") number=${1:?}
node=$(sed -n "${number}p" "$bed/nodes") own=$bed/n$number
nodes=$(wc -l <"$bed/nodes") block=b1
((number < ${BED_NODES:-$nodes})) || block=b2
group=/$node
mkdir -p "$own/cni"
for controller in /sys/fs/cgroup/*/; do mkdir -p "$controller/$group" 2>/dev/null || true; done
start() { # NAME WORDS...: runs a command in the background until stop.sh
  local name=$1
  shift
  nsenter --net="/run/netns/$node" setsid "$@" >>"$own/$name.log" 2>&1 </dev/null &
  echo $! >>"$bed/pids"
  echo $! >"$own/$name.pid"
}
running() { [[ -f $own/$1.pid ]] && kill -0 "$(cat "$own/$1.pid")" 2>/dev/null; }

cat >"$own/cni/10-pods.conflist" <<CNI
{"cniVersion": "0.4.0", "name": "pods-$number", "plugins": [{"type": "bridge", "bridge": "cni0", "isGateway": true, "ipam": {
  "type": "host-local", "dataDir": "$own/addresses", "ranges": [[{"subnet": "10.88.$number.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
CNI
# restrict_oom_score_adj: CI containers have no CAP_SYS_RESOURCE.
cat >"$own/containerd.toml" <<CONTAINERD
version = 2
root = "$own/containerd"
state = "$own/state"
[grpc]
  address = "$own/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "registry.bed/burnin/pause:1"
  restrict_oom_score_adj = true
  disable_tcp_service = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$own/cni"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "$bed/registries"
[plugins."io.containerd.internal.v1.opt"]
  path = "$own/opt"
CONTAINERD
cat >"$own/kubelet.json" <<KUBELET
{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "address": "10.77.0.1$number",
 "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}}, "authorization": {"mode": "AlwaysAllow"},
 "cgroupDriver": "cgroupfs", "cgroupRoot": "$group", "containerRuntimeEndpoint": "unix://$own/containerd.sock",
 "clusterDNS": ["10.77.0.1"], "clusterDomain": "cluster.local", "resolvConf": "", "failSwapOn": false, "makeIPTablesUtilChains": false,
 "podLogsDir": "$own/logs", "volumePluginDir": "$own/plugins", "imageGCHighThresholdPercent": 100, "enforceNodeAllocatable": [],
 "evictionHard": {"imagefs.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.inodesFree": "0%", "memory.available": "10Mi"},
 "containerLogMaxSize": "256Ki", "containerLogMaxFiles": 3, "containerLogMonitorInterval": "3s",
 "nodeStatusUpdateFrequency": "2s", "nodeLeaseDurationSeconds": 8, "healthzPort": 0, "oomScoreAdj": 0}
KUBELET
running containerd || start containerd containerd --config "$own/containerd.toml"
end=$((SECONDS + 30))
until [[ -S $own/containerd.sock ]]; do ((SECONDS < end)) || { tail -n 5 "$own/containerd.log" >&2; exit 1; }; sleep 0.1; done
running kubelet || start kubelet "$kubernetes/kubelet" --config="$own/kubelet.json" --kubeconfig="$bed/admin" --root-dir="$own/kubelet" \
  --cert-dir="$own/certs" --hostname-override="n$number" --node-ip="10.77.0.1$number" --node-labels="bed/block=$block"
