#!/usr/bin/env bash
# Starts a real API server, the real job and garbage controllers, and JobSet's and Kueue's definitions in a network namespace:
# BED_DIR (an existing folder), KUBERNETES (a folder with kube-apiserver, kube-controller-manager and crds/). The tests simulate
# kubelets and the controllers of JobSet and Kueue. With BED_NODES=N, nodes.sh starts N real nodes, the real scheduler, and the
# real controllers of JobSet and Kueue.
set -euo pipefail
bed=${BED_DIR:?} kubernetes=$(realpath "${KUBERNETES:?}")
space=burnin-k8s-$$ address=10.77.0.1
mkdir -p "$bed/etcd" "$bed/certs"
echo "$space" >"$bed/namespace"
: >"$bed/pids"
ip netns add "$space"
ip -n "$space" link set lo up
# The API server rejects kubelets on loopback addresses.
ip -n "$space" link add here type bridge
ip -n "$space" addr add "$address/24" dev here
ip -n "$space" link set here up
start() { # NAME WORDS...: runs until stop.sh
  local name=$1
  shift
  nsenter --net="/run/netns/$space" setsid "$@" >"$bed/$name.log" 2>&1 </dev/null &
  echo $! >>"$bed/pids"
}
inside() { nsenter --net="/run/netns/$space" "$@"; }
until_good() { # SECONDS WORDS...: repeats a command until it succeeds, at most for SECONDS
  local end=$((SECONDS + $1))
  shift
  until inside "$@" >/dev/null 2>&1; do
    ((SECONDS < end)) || { echo "timeout: $*" >&2; tail -n 5 "$bed"/*.log >&2; exit 1; }
    sleep 0.2
  done
}

start etcd etcd --data-dir "$bed/etcd" --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
  --listen-peer-urls http://127.0.0.1:2380 --initial-advertise-peer-urls http://127.0.0.1:2380 \
  --initial-cluster default=http://127.0.0.1:2380 --unsafe-no-fsync
until_good 30 curl --silent --fail http://127.0.0.1:2379/health
openssl genrsa -out "$bed/certs/accounts.key" 2048 2>/dev/null
admin=$(openssl rand -hex 16) burnin=$(openssl rand -hex 16)
printf '%s\n' "$admin,admin,1,system:masters" "$burnin,system:serviceaccount:burnin:burnin,2,system:serviceaccounts" >"$bed/tokens"
more=() controllers=job-controller,garbage-collector-controller,namespace-controller
if [[ ${BED_NODES:-0} != 0 ]]; then
  # Pods are evicted 5 s after their node becomes unreachable or not ready, instead of after the default 300 s.
  more=(--default-not-ready-toleration-seconds=5 --default-unreachable-toleration-seconds=5)
  controllers+=,node-lifecycle-controller,taint-eviction-controller,pod-garbage-collector-controller,resourcequota-controller
  controllers+=,endpoints-controller,endpointslice-controller,daemonset-controller
fi
start kube-apiserver "$kubernetes/kube-apiserver" --etcd-servers=http://127.0.0.1:2379 --service-cluster-ip-range=10.96.0.0/24 \
  --bind-address="$address" --advertise-address="$address" --secure-port=6443 --cert-dir="$bed/certs" \
  --token-auth-file="$bed/tokens" --authorization-mode=RBAC --allow-privileged --disable-admission-plugins=ServiceAccount \
  --service-account-issuer=https://bed --service-account-key-file="$bed/certs/accounts.key" \
  --service-account-signing-key-file="$bed/certs/accounts.key" --kubelet-preferred-address-types=InternalIP "${more[@]}"
config() { # FILE TOKEN: writes a kubeconfig
  cat >"$bed/$1" <<CONFIG
{"apiVersion": "v1", "kind": "Config", "current-context": "bed",
 "clusters": [{"name": "bed", "cluster": {"server": "https://$address:6443", "insecure-skip-tls-verify": true}}],
 "users": [{"name": "bed", "user": {"token": "$2"}}],
 "contexts": [{"name": "bed", "context": {"cluster": "bed", "user": "bed"}}]}
CONFIG
}
config admin "$admin"
config kubeconfig "$burnin"
printf 'https://%s:6443' "$address" >"$bed/endpoint"
printf '%s' "$admin" >"$bed/admin-token"
kubectl=(kubectl --kubeconfig "$bed/admin")
until_good 120 "${kubectl[@]}" get --raw /readyz
start kube-controller-manager "$kubernetes/kube-controller-manager" --kubeconfig="$bed/admin" --authentication-kubeconfig="$bed/admin" \
  --authorization-kubeconfig="$bed/admin" --controllers="$controllers" \
  --leader-elect=false --cert-dir="$bed/certs/manager" --node-monitor-grace-period=12s --node-monitor-period=2s
inside "${kubectl[@]}" apply --server-side --filename "$kubernetes/crds" >/dev/null
inside "${kubectl[@]}" wait --for=condition=Established crd --all --timeout=120s >/dev/null
if [[ ${BED_NODES:-0} != 0 ]]; then
  . "$(dirname "${BASH_SOURCE[0]}")/nodes.sh"
  exit
fi
# The tests' simulated kubelet serves HTTP, but the API server requires TLS.
openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=node-1 -keyout "$bed/certs/kubelet.key" -out "$bed/certs/kubelet.crt" 2>/dev/null
cat "$bed/certs/kubelet.key" "$bed/certs/kubelet.crt" >"$bed/certs/kubelet.pem"
start kubelet-tls socat "OPENSSL-LISTEN:10250,bind=$address,cert=$bed/certs/kubelet.pem,verify=0,fork,reuseaddr" TCP:127.0.0.1:10255
inside "${kubectl[@]}" create --filename - >/dev/null <<'NODE'
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}}
NODE
inside "${kubectl[@]}" patch node node-1 --subresource=status --type=merge --patch \
  "{\"status\": {\"addresses\": [{\"type\": \"InternalIP\", \"address\": \"$address\"}], \"daemonEndpoints\": {\"kubeletEndpoint\": {\"Port\": 10250}}}}" >/dev/null
inside "${kubectl[@]}" version | tail -n 1
