#!/usr/bin/env bash
# Creates a root file system for an image in TREE, without Docker: Debian packages with their dependencies, unpacked, not configured.
#   debian.sh TREE PACKAGES...
set -euo pipefail
tree=${1:?} state=$(mktemp -d)
shift
trap 'rm -rf "$state"' EXIT
mkdir -p "$state/archives/partial"
: >"$state/status"
# An empty list of installed packages makes apt download all dependencies, independent of this host.
apt-get -qq -y -o "Dir::State::status=$state/status" -o "Dir::Cache::archives=$state/archives" -o APT::Sandbox::User=root \
  -o APT::Keep-Downloaded-Packages=true --no-install-recommends --download-only install "$@" >/dev/null
mkdir -p "$tree"/usr/{bin,sbin,lib,lib64} "$tree"/{etc,dev,proc,sys,root,run} && mkdir -p -m 1777 "$tree/tmp"
for folder in bin sbin lib lib64; do ln -s "usr/$folder" "$tree/$folder"; done
for package in "$state"/archives/*.deb; do
  dpkg-deb --fsys-tarfile "$package" | tar --extract --directory "$tree" --keep-directory-symlink \
    --exclude='./usr/share/doc/*' --exclude='./usr/share/man/*' --exclude='./usr/share/locale/*'
done
# Creates the required files and links that the packages' scripts would create, because these scripts are not run.
printf '%s\n' 'root:x:0:0:root:/root:/bin/bash' 'sshd:x:100:65534::/run/sshd:/usr/sbin/nologin' >"$tree/etc/passwd"
printf '%s\n' 'root:x:0:' 'nogroup:x:65534:' >"$tree/etc/group"
echo 'hosts: files dns' >"$tree/etc/nsswitch.conf"
for program in mpirun mpiexec; do
  [[ ! -e $tree/usr/bin/$program.openmpi ]] || ln -sf "$program.openmpi" "$tree/usr/bin/$program"
done
