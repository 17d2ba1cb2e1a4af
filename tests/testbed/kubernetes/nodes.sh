# Sourced by start.sh: starts BED_NODES real nodes, each a network namespace with containerd and kubelet, with an address per pod;
# the real scheduler, JobSet and Kueue with their webhooks; and a queue over all nodes. KUBERNETES must also contain
# kube-scheduler, kubelet, jobset, kueue and webhooks/{jobset,kueue}.yaml. names.py is the cluster's name server, registry.py
# its registry.
here=$(dirname "${BASH_SOURCE[0]}")
inside sysctl -qw net.ipv4.ip_forward=1

# An image with bash, the benchmark and node_perf, and a pause image, by digest, from a registry.
python3 "$here/image.py" "$bed/registry" program quickstart "${BED_PROGRAM:?}" "${BED_NODE_PERF:?}" >"$bed/image"
start registry python3 "$here/registry.py" "$address" "$bed/registry"
start names python3 "$here/names.py" "$address" "$(cat "$bed/endpoint")" "$bed/admin-token"
mkdir -p "$bed/registries/registry.bed"
cat >"$bed/registries/registry.bed/hosts.toml" <<HOSTS
server = "http://$address:5000"
[host."http://$address:5000"]
  capabilities = ["pull", "resolve"]
HOSTS

for number in $(seq "$BED_NODES"); do
  node=$space-n$number
  echo "$node" >>"$bed/nodes"
  ip netns add "$node"
  ip -n "$node" link set lo up
  ip -n "$space" link add "n$number" type veth peer name eth0 netns "$node"
  ip -n "$space" link set "n$number" master here up
  ip -n "$node" addr add "10.77.0.1$number/24" dev eth0
  ip -n "$node" link set eth0 up
  ip -n "$node" route add default via "$address"
  nsenter --net="/run/netns/$node" sysctl -qw net.ipv4.ip_forward=1
  ip -n "$space" route add "10.88.$number.0/24" via "10.77.0.1$number"
  bash "$here/node.sh" "$number"
done

# Webhooks by URL, because service addresses are not routed here.
mkdir -p "$bed/certs/webhooks"
openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=webhooks -addext "subjectAltName=IP:$address" \
  -keyout "$bed/certs/webhooks/tls.key" -out "$bed/certs/webhooks/tls.crt" 2>/dev/null
authority=$(base64 -w0 "$bed/certs/webhooks/tls.crt")
hooks() { # NAME PORT: prints the webhooks of NAME with URLs instead of services
  sed -E -e "s/^  name: (mutating|validating)-webhook/  name: $1-\1-webhook/" -e '/^    service:$/d; /^      name: webhook-service$/d; /^      namespace: system$/d' \
    -e "s|^      path: (.*)|    url: https://$address:$2\1\n    caBundle: $authority|" "$kubernetes/webhooks/$1.yaml"
}
start kube-scheduler "$kubernetes/kube-scheduler" --kubeconfig="$bed/admin" --authentication-kubeconfig="$bed/admin" \
  --authorization-kubeconfig="$bed/admin" --leader-elect=false --cert-dir="$bed/certs/scheduler"
settings() { # PREFIX: prints the settings of a controller; PREFIX begins its port numbers
  printf '"webhook": {"port": %d443, "host": "%s", "certDir": "%s"}, "leaderElection": {"leaderElect": false}, "internalCertManagement": {"enable": false}, "health": {"healthProbeBindAddress": "127.0.0.1:%d081"}, "metrics": {"bindAddress": "127.0.0.1:%d080"}' \
    "$1" "$address" "$bed/certs/webhooks" "$1" "$1"
}
inside "${kubectl[@]}" create namespace jobset-system >/dev/null
inside "${kubectl[@]}" create namespace kueue-system >/dev/null
echo "{\"apiVersion\": \"config.jobset.x-k8s.io/v1alpha1\", \"kind\": \"Configuration\", $(settings 11)}" >"$bed/jobset.json"
echo "{\"apiVersion\": \"config.kueue.x-k8s.io/v1beta1\", \"kind\": \"Configuration\", \"namespace\": \"kueue-system\", $(settings 12), \"integrations\": {\"frameworks\": [\"jobset.x-k8s.io/jobset\"]}}" >"$bed/kueue.json"
start jobset "$kubernetes/jobset" --kubeconfig="$bed/admin" --config="$bed/jobset.json"
# Kueue reads the certificate of its metrics from a fixed folder only.
mkdir -p "$bed/etc/kueue/metrics/certs" "$bed/etc-work"
cp "$bed/certs/webhooks/"* "$bed/etc/kueue/metrics/certs/"
start kueue unshare --mount sh -c 'mount -t overlay -o "lowerdir=/etc,upperdir=$1/etc,workdir=$1/etc-work" none /etc && shift && exec "$@"' sh "$bed" \
  "$kubernetes/kueue" --kubeconfig="$bed/admin" --config="$bed/kueue.json" \
  --feature-gates=TopologyAwareScheduling=true,VisibilityOnDemand=false
until_good 120 curl --silent --fail http://127.0.0.1:11081/readyz
until_good 120 curl --silent --fail http://127.0.0.1:12081/readyz
{ hooks jobset 11443; echo ---; hooks kueue 12443; } | inside "${kubectl[@]}" apply --server-side --filename - >/dev/null
until_good 120 "${kubectl[@]}" get node "n$BED_NODES"
inside "${kubectl[@]}" wait --for=condition=Ready node --all --timeout=120s >/dev/null

# Two blocks: the second block contains only the last node.
inside "${kubectl[@]}" create namespace burnin >/dev/null
until_good 60 "${kubectl[@]}" apply --server-side --filename "$here/queue.yaml"
inside "${kubectl[@]}" wait --for=condition=Active localqueue/bed --namespace burnin --timeout=120s >/dev/null
inside "${kubectl[@]}" get nodes --no-headers
