#!/usr/bin/env bash
# Starts a real Slurm on one host: munge, a controller and nodes, each in its own network namespace (10.77.0.0/24, which exists only
# inside them). Needs root. Exits with 0 when all nodes are idle.
#   BED_DIR    the bed's folder
#   BED_NODES  number of nodes (4)
#   BED_SILENT seconds without a response until Slurm sets a node to DOWN (6)
#   BED_ACCT   1: with accounting by MariaDB and slurmdbd, which sacct needs (0)
# Afterwards `$BED_DIR/on NODE COMMAND...` runs a command on a node: ctl, n1, n2, ...
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=${BED_DIR:?} nodes=${BED_NODES:-4} acct=${BED_ACCT:-0} silent=${BED_SILENT:-6}
die() { echo "start.sh: $*" >&2; exit 1; }
[[ $(id -u) == 0 ]] || die "needs root"
[[ ! -e $dir/run/up ]] || die "$dir is in use: run stop.sh first"
mkdir -p "$dir"/{etc,log,run,state,spool,munge,fault,shared}
chmod 755 "$dir" "$dir/munge"; chmod 700 "$dir/state"
# The process id makes the names of namespaces unique, so that two beds can run at the same time. The file is written first, so that stop.sh
# can clean up after a partial start.
prefix=bed$$
printf 'prefix=%q nodes=%q\n' "$prefix" "$nodes" >"$dir/run/up"
export SLURM_CONF=$dir/etc/slurm.conf

cat >"$dir/on" <<SCRIPT
#!/usr/bin/env bash
# nsenter is used because \`ip netns exec\` hides /sys/fs/cgroup, which slurmd needs to start.
node=\$1; shift
export SLURM_CONF=$(printf %q "$SLURM_CONF")
exec nsenter --net="/run/netns/$prefix-\$node" unshare --uts --mount -- \\
  sh -c 'mount --bind "\$0" /etc/hosts; hostname "\$1"; shift; exec "\$@"' $(printf %q "$dir/etc/hosts") "\$node" "\$@"
SCRIPT
chmod 755 "$dir/on"
on() { "$dir/on" "$@"; }

[[ -s $dir/munge/key ]] || { head -c 128 /dev/urandom >"$dir/munge/key"; chmod 400 "$dir/munge/key"; }
munged --force --key-file="$dir/munge/key" --socket="$dir/munge/munge.socket" --pid-file="$dir/run/munged.pid" \
  --log-file="$dir/log/munged.log" --seed-file="$dir/munge/seed" 2>>"$dir/log/munged.err"

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
  echo "$2 $1" >>"$dir/etc/hosts"
}
echo "127.0.0.1 localhost" >"$dir/etc/hosts"
plug ctl 10.77.0.1
lines=
for ((i = 1; i <= nodes; i++)); do
  plug "n$i" "10.77.0.$((10 + i))"
  lines+="NodeName=n$i NodeAddr=10.77.0.$((10 + i)) CPUs=16 RealMemory=1000 State=UNKNOWN"$'\n'
done

conf=$(<"$here/slurm.conf.in")
conf=${conf//@SILENT@/$silent} conf=${conf//@DIR@/$dir} conf=${conf//@NODES@/$lines} conf=${conf//@SET@/n[1-$nodes]}
accounts=accounting_storage/none
if [[ $acct == 1 ]]; then
  accounts=accounting_storage/slurmdbd
  # For slurmdbd this parameter is munge's socket; AuthInfo does not apply.
  conf+=$'\n'"AccountingStorageHost=10.77.0.1"$'\n'"AccountingStoragePass=$dir/munge/munge.socket"$'\n'
fi
echo "${conf//@ACCOUNTS@/$accounts}" >"$SLURM_CONF"
# A number in fault/prolog.NODE is the exit status of that node's prolog.
cat >"$dir/etc/prolog.sh" <<SCRIPT
#!/bin/sh
fault=$(printf %q "$dir")/fault/prolog.\$SLURMD_NODENAME
[ -s "\$fault" ] && exit "\$(cat "\$fault")"
exit 0
SCRIPT
chmod 755 "$dir/etc/prolog.sh"

await() { local what=$1 i; shift; for ((i = 0; i < 300; i++)); do "$@" >/dev/null 2>&1 && return; sleep 0.1; done; die "$what; see $dir/log"; }
if [[ $acct == 1 ]]; then
  mkdir -p "$dir/db" "$dir/run/db"; chown mysql:mysql "$dir/db" "$dir/run/db"
  [[ -d $dir/db/mysql ]] || mariadb-install-db --user=mysql --datadir="$dir/db" --auth-root-authentication-method=normal \
    --skip-test-db >"$dir/log/mariadb-install.log" 2>&1
  setsid mariadbd --no-defaults --user=mysql --datadir="$dir/db" --socket="$dir/run/db/sock" --skip-networking \
    --pid-file="$dir/run/db/pid" --innodb-buffer-pool-size=64M --innodb-lock-wait-timeout=900 \
    >"$dir/log/mariadbd.log" 2>&1 </dev/null &
  echo $! >"$dir/run/mariadbd.pid"
  await "MariaDB does not respond" mariadb -S "$dir/run/db/sock" -uroot -e "create database if not exists slurm_acct_db"
  (umask 077; cat >"$dir/etc/slurmdbd.conf" <<CONF
AuthType=auth/munge
AuthInfo=socket=$dir/munge/munge.socket
DbdHost=ctl
DbdAddr=10.77.0.1
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm_acct_db
LogFile=$dir/log/slurmdbd.log
PidFile=$dir/run/slurmdbd.pid
CONF
  )
  on ctl env MYSQL_UNIX_PORT="$dir/run/db/sock" slurmdbd
  await "slurmdbd does not respond" on ctl sacctmgr -n list cluster
  on ctl sacctmgr -i add cluster testbed >>"$dir/log/sacctmgr.log" 2>&1 || true
  on ctl sacctmgr -i add account default >>"$dir/log/sacctmgr.log" 2>&1 || true
fi

on ctl slurmctld
up() { on ctl scontrol ping | grep -q 'is UP'; }
await "the controller does not respond" up
for ((i = 1; i <= nodes; i++)); do
  mkdir -p "$dir/spool/n$i" "$dir/tmp/n$i"; chmod 1777 "$dir/tmp/n$i"
  on "n$i" slurmd -N "n$i"
done
idle() { [[ $(on ctl sinfo -h -p main -o %T -N | grep -c '^idle$') == "$nodes" ]]; }
await "not all nodes are idle" idle
