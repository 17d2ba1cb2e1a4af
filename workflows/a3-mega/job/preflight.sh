#!/bin/bash
# preflight.sh node|job, on every node: checks TCPXO's requirements. `job`: within a job of two nodes or more, whose prolog starts
# RxDM and installs the environment. Each finding is a line in the form that Burnin's diagnoses match. Exit status 1: a finding.
host=$(hostname)
root=${PREFLIGHT_ROOT:-}
control=enp0s12
data=(enp6s0 enp7s0 enp13s0 enp14s0 enp134s0 enp135s0 enp141s0 enp142s0)
found=0
finding() { echo "PREFLIGHT: $host: $*"; found=1; }

gpus=$(nvidia-smi --list-gpus 2>/dev/null | grep -c '^GPU ')
[[ $gpus == 8 ]] || finding "Number of GPUs detected $gpus is not equal to the actual number of GPUs 8"

devices=$(ls -A "$root/dev/aperture_devices" 2>/dev/null | wc -l)
if [[ ! -d $root/dev/aperture_devices ]]; then
  finding 'ls: /dev/aperture_devices: No such file or directory'
elif ((devices == 0)); then
  finding 'ERROR: APERTURE devices failed to initialize: /dev/aperture_devices is empty'
fi

for name in "$control" "${data[@]}"; do
  [[ -e $root/sys/class/net/$name ]] || finding "Failed to find interface $name"
done

if [[ $1 == job ]]; then
  library=/var/lib/tcpxo/lib64
  [[ -s $root$library/libnccl-net.so ]] || finding "Could not find: libnccl-net.so in $library"
  [[ -s $root$library/nccl-env-profile.sh ]] || finding "$library/nccl-env-profile.sh: No such file or directory"
  running=$(docker ps --filter name=receive-datapath-manager --format '{{.Names}}' 2>/dev/null)
  [[ -n $running ]] || finding "RxDM not ready on $host: no container receive-datapath-manager"
fi
((found)) || echo "preflight: $host: 8 GPUs, $devices aperture devices, 9 interfaces"
exit "$found"
