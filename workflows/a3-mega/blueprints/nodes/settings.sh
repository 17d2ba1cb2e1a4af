#!/bin/bash
# Settings of every machine: unlimited pinned memory, enroot on local disks, predictable interface names.
set -euo pipefail
cat >/etc/security/limits.d/99-unlimited.conf <<'LIMITS'
* - memlock unlimited
* - nproc unlimited
* - stack unlimited
* - nofile 1048576
* - cpu unlimited
* - rtprio unlimited
LIMITS
mkdir -p /etc/enroot
cat >/etc/enroot/enroot.conf <<'ENROOT'
ENROOT_RUNTIME_PATH    /mnt/localssd/${UID}/enroot/runtime
ENROOT_CACHE_PATH      /mnt/localssd/${UID}/enroot/cache
ENROOT_DATA_PATH       /mnt/localssd/${UID}/enroot/data
ENROOT_TEMP_PATH       /mnt/localssd/${UID}/enroot
ENROOT
# timesyncd restarts for each network card: nine restarts exceed systemd's default burst.
mkdir -p /etc/systemd/system/systemd-timesyncd.service.d
printf '[Unit]\nStartLimitBurst=10\n' >/etc/systemd/system/systemd-timesyncd.service.d/burst.conf
# Only the control network provides a resolver; otherwise each of the nine cards would add one.
cat >/etc/netplan/90-default.yaml <<'NETPLAN'
network:
  version: 2
  ethernets:
    00-control:
      match: {name: "enp0*"}
      dhcp4: true
      dhcp4-overrides: {use-domains: true}
    90-gpu:
      match: {name: "en*"}
      dhcp4: true
      dhcp4-overrides: {use-domains: true, use-dns: false, use-ntp: false}
NETPLAN
chmod 600 /etc/netplan/90-default.yaml
