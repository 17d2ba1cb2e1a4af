#!/usr/bin/env bash
# Simulates hosts on one machine: ssh hosts, each with its own file system (an overlay of this machine's), processes, network,
# name and /etc. Slurm is not configured on them.
# Needs root, overlay file systems, iproute2, util-linux, procps, openssh and sudo.
#   BED_DIR     the bed's folder
#   BED_HOSTS   names of the ssh hosts ("login dgx01 dgx02 dgx03 dgx04"); all but the first have simulated GPUs
#   BED_GPUS    simulated GPUs per node: character devices that are copies of /dev/null (2)
# Afterwards `$BED_DIR/here COMMAND...` runs a command on this machine in the hosts' network, and `$BED_DIR/on HOST
# COMMAND...` runs one on a host as root. `$BED_DIR/cut HOST` disconnects a host, `$BED_DIR/mend HOST` reconnects it.
# On every host the user `ops` has sudo without a password, and `asked` with the password `right`; both log in with the key
# ssh/id.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=${BED_DIR:?} gpus=${BED_GPUS:-2}
read -ra hosts <<<"${BED_HOSTS:-login dgx01 dgx02 dgx03 dgx04}"
die() { echo "start.sh: $*" >&2; exit 1; }
[[ $(id -u) == 0 ]] || die "needs root"
[[ ! -e $dir/up ]] || die "$dir is in use: run stop.sh first"
mkdir -p "$dir"/{ssh,log,pid,root,shared}
chmod 755 "$dir" "$dir"/{ssh,shared}
# The folder belongs to `ops`, which host.sh creates.
chown 10007 "$dir/shared"
prefix=ab$$
printf 'prefix=%q hosts=%q\n' "$prefix" "${hosts[*]}" >"$dir/up"
[[ -s $dir/ssh/id ]] || ssh-keygen -q -t ed25519 -N '' -f "$dir/ssh/id"
[[ -s $dir/ssh/host ]] || ssh-keygen -q -t ed25519 -N '' -f "$dir/ssh/host"

cat >"$dir/on" <<SCRIPT
#!/usr/bin/env bash
host=\$1; shift
exec nsenter --target "\$(<$(printf %q "$dir/pid")/"\$host")" --mount --uts --net --pid --root -- env --chdir=/ HOME=/root "\$@"
SCRIPT
for how in cut:down mend:up; do
  cat >"$dir/${how%:*}" <<SCRIPT
#!/usr/bin/env bash
exec ip -n $prefix-sw link set "p\$1" ${how#*:}
SCRIPT
done
cat >"$dir/here" <<SCRIPT
#!/usr/bin/env bash
exec nsenter --net=/run/netns/$prefix-mgmt -- "\$@"
SCRIPT
chmod 755 "$dir"/{on,cut,mend,here}

ip netns add "$prefix-sw"
ip -n "$prefix-sw" link add br0 type bridge
ip -n "$prefix-sw" link set br0 up
plug() {
  ip netns add "$prefix-$1"
  ip -n "$prefix-$1" link set lo up
  ip link add eth0 netns "$prefix-$1" type veth peer name "p$1" netns "$prefix-sw"
  ip -n "$prefix-$1" addr add "$2/24" dev eth0
  ip -n "$prefix-$1" link set eth0 up
  ip -n "$prefix-sw" link set "p$1" master br0 up
}
plug mgmt 10.78.0.1
for ((i = 0; i < ${#hosts[@]}; i++)); do
  host=${hosts[i]} address=10.78.0.$((10 + i)) devices=$gpus
  plug "$host" "$address"
  echo "$address" >"$dir/pid/$host.address"
  ((i > 0)) || devices=0
  mkdir -p "$dir/root/$host"
  setsid nsenter --net="/run/netns/$prefix-$host" unshare --mount --uts --pid --fork --kill-child=KILL --propagation private -- \
    bash "$here/host.sh" "$dir" "$host" "$address" "$devices" >"$dir/log/$host.log" 2>&1 </dev/null &
  echo $! >"$dir/pid/$host.outer"
done
for host in "${hosts[@]}"; do
  for ((i = 0; i < 200; i++)); do
    [[ -e $dir/pid/$host.ready ]] && break
    sleep 0.1
  done
  [[ -e $dir/pid/$host.ready ]] || { cat "$dir/log/$host.log" >&2; die "$host did not start within 20 s"; }
  pgrep -P "$(<"$dir/pid/$host.outer")" >"$dir/pid/$host"
done

# Writes an inventory of all hosts, as a user would.
{
  entry() { echo "$1 ansible_host=$(<"$dir/pid/$1.address")"; }
  printf '[slurm-master]\n%s\n\n[slurm-node]\n' "$(entry "${hosts[0]}")"
  for host in "${hosts[@]:1}"; do entry "$host"; done
  printf '\n[nfs-server]\n%s\n\n[slurm-cluster:children]\nslurm-master\nslurm-node\n' "${hosts[0]}"
  # Keeps this machine's list of known hosts unchanged.
  printf "\n[all:vars]\nansible_ssh_common_args='-o UserKnownHostsFile=%s'\n" "$dir/ssh/known_hosts"
} >"$dir/inventory"
