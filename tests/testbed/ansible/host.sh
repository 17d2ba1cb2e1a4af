#!/usr/bin/env bash
# First process of a simulated host, in the host's namespaces: host.sh BED_DIR NAME ADDRESS SIMULATED_GPUS
set -euo pipefail
dir=$1 name=$2 address=$3 gpus=$4
hostname "$name"
root=$dir/root/$name
# A host's files are in memory and are deleted with the host.
mount -t tmpfs tmpfs "$root"
mkdir "$root"/{upper,work,all}
mount -t overlay overlay -o "lowerdir=/,upperdir=$root/upper,workdir=$root/work" "$root/all"
all=$root/all
mount -t proc proc "$all/proc"
mount --rbind /sys "$all/sys"
mount -t tmpfs tmpfs "$all/run"
# Hides this machine's files.
mount -t tmpfs -o mode=1777 tmpfs "$all/var/tmp"
mkdir -p "$all"/run/{sshd,lock} "$all/mnt/shared"
mount --bind "$dir" "$all$dir"
mount --bind "$dir/shared" "$all/mnt/shared"
mount -t tmpfs -o mode=755 tmpfs "$all/dev"
for device in null:3 zero:5 full:7 random:8 urandom:9; do mknod -m 666 "$all/dev/${device%:*}" c 1 "${device#*:}"; done
mknod -m 666 "$all/dev/tty" c 5 0
mkdir -m 1777 "$all/dev/shm" "$all/dev/pts"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$all/dev/pts"
ln -s pts/ptmx "$all/dev/ptmx"
ln -s /proc/self/fd "$all/dev/fd"
for stream in stdin:0 stdout:1 stderr:2; do ln -s "/proc/self/fd/${stream#*:}" "$all/dev/${stream%:*}"; done
for ((i = 0; i < gpus; i++)); do mknod -m 666 "$all/dev/nvidia$i" c 1 3; done
# Makes this a new machine: no Slurm configuration, no systemd, no name of another host.
rm -rf "$all"/etc/munge/munge.key "$all"/etc/slurm/*.conf "$all/sbin/init" "$all"/var/lib/slurm/*/*
# systemd.py runs services with a unit file; init scripts run the services of Debian's packages.
for tool in systemctl journalctl; do install -m 755 "${0%/*}/systemd.py" "$all/usr/local/bin/$tool"; done
echo "$name" >"$all/etc/hostname"
echo "$dir/up" >"$all/etc/bed"
printf '127.0.0.1 localhost\n' >"$all/etc/hosts"
chroot "$all" useradd --create-home --uid 10007 --shell /bin/bash ops
chroot "$all" useradd --create-home --uid 10008 --shell /bin/bash asked
# sshd rejects an account without a password as locked.
printf 'ops:%s\nasked:right\n' "$(head -c 12 /dev/urandom | base64)" | chroot "$all" chpasswd
printf 'ops ALL=(ALL) NOPASSWD:ALL\nasked ALL=(ALL) ALL\n' >"$all/etc/sudoers.d/bed"
cat >"$all/etc/ssh/sshd_config" <<CONF
ListenAddress $address
HostKey $dir/ssh/host
AuthorizedKeysFile $dir/ssh/id.pub
StrictModes no
PasswordAuthentication no
PermitRootLogin no
UsePAM no
UseDNS no
MaxStartups 100
Subsystem sftp internal-sftp
CONF
chroot "$all" /usr/sbin/sshd
touch "$dir/pid/$name.ready"
# The shell reaps orphaned processes.
exec chroot "$all" /bin/bash -c 'while :; do sleep 3600 & wait $!; done'
