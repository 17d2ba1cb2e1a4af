#!/usr/bin/env bash
# Runs in its own mount and process namespaces: mounts an overlay of this host at $1/host, and uses the packages in $1 there.
set -eEuo pipefail
trap 'echo "line $LINENO of $0: exit status $?"' ERR
folder=$1 host=$1/host
fail() { echo "$*"; exit 1; }
mount -t tmpfs tmpfs "$host"
mkdir "$host"/{upper,work,root}
mount -t overlay overlay -o "lowerdir=/,upperdir=$host/upper,workdir=$host/work" "$host/root"
root=$host/root
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mkdir -p "$root/packages"
cp "$folder"/old/*.deb "$folder"/new/*.deb "$root/packages/"
old=/packages/$(basename "$folder"/old/*.deb) new=/packages/$(basename "$folder"/new/*.deb)
on() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C "$@"; }

on dpkg --install "$old" >/dev/null
on burnin --version
on getent passwd burnin >/dev/null || fail "the user burnin is missing"
on systemd-analyze verify --man=no burnin-up.service burnin-agent.service 2>&1 | grep -i 'burnin' >"$folder/refused" && { cat "$folder/refused"; fail "systemd refuses a unit"; }
on test -s /usr/share/man/man1/burnin.1.gz || fail "the manual page is missing"
on bash -c 'source /usr/share/bash-completion/completions/burnin && complete -p burnin' >/dev/null || fail "the completion is missing"
on burnin check /usr/share/burnin/workflows/quickstart.yaml >/dev/null || fail "burnin check rejects the shipped workflow"

# Starts the program with the unit's user, folders, variables and command line.
start() {
  on install -d -o burnin -g burnin -m 700 /var/lib/burnin
  local line
  # Remove the output of an earlier start, which contains an old address.
  rm -f "$folder/up"
  line=$(sed -n 's/^ExecStart=//p' "$root/lib/systemd/system/burnin-up.service")
  # shellcheck disable=SC2086 # words of the unit
  on setpriv --reuid burnin --regid burnin --clear-groups env BURNIN_DATA=/var/lib/burnin $line --port 0 >"$folder/up" 2>&1 &
  up=$!
  for _ in {1..100}; do
    grep -qs '^http://127' "$folder/up" && return
    kill -0 "$up" 2>/dev/null || break
    sleep 0.1
  done
  cat "$folder/up"
  fail "burnin up did not start"
}
stop() {
  pkill -TERM -x burnin
  wait "$up" || true
  ! pgrep -x burnin >/dev/null || fail "burnin is still running"
}
start
stop
on test -e /var/lib/burnin/warehouse.sqlite || fail "the server did not use the unit's folder"

# An upgrade keeps changed configuration and the data.
echo 'BURNIN_PROJECT=mine' >>"$root/etc/burnin/agent.env"
on touch /var/lib/burnin/mine
on dpkg --install "$new" >/dev/null
[[ $(on dpkg-query --show --showformat '${Version}' burnin) == 0.0.2 ]] || fail "the upgrade did not install version 0.0.2"
grep -q '^BURNIN_PROJECT=mine' "$root/etc/burnin/agent.env" || fail "the upgrade lost the configuration"
start
stop

on dpkg --remove burnin >/dev/null
! on test -e /usr/bin/burnin || fail "remove kept the program"
on test -e /etc/burnin/agent.env || fail "remove deleted the configuration"
on dpkg --purge burnin >/dev/null 2>"$folder/purged"
! on test -e /etc/burnin/agent.env || fail "purge kept the configuration"
on test -e /var/lib/burnin/mine || fail "purge deleted the data"
grep -q '/var/lib/burnin' "$folder/purged" || fail "purge does not mention the data"
echo "install, start, upgrade, remove and purge of the Debian package"
