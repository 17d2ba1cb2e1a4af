#!/usr/bin/env bash
# Builds replacements of the A4 test bed's images from Debian packages, and pushes them to the registry of a running bed. Writes the
# name of each image to a file in BED_DIR:
#   image-mpi         sshd, Open MPI, Python, and all_reduce_perf and all_gather_perf over MPI on CPUs
#   image-gib         an installer of gIB's settings; image-gib-sockets: one with which NCCL reports sockets;
#   image-gib-empty   one without effect
#   image-talk        an all_reduce_perf with much output and no measurement
#   image-evidence    the quickstart's benchmark, and an nvidia-smi that answers the queries of the hardware evidence
set -euo pipefail
bed=${BED_DIR:?} here=$(dirname "${BASH_SOURCE[0]}")
trap 'rm -rf "$bed/tree"' EXIT
made() { # NAME
  python3 "$here/image.py" "$bed/registry" tree "$1" "$bed/tree" >"$bed/image-$1"
}
# The installers need only a shell and `cp`.
bash "$here/debian.sh" "$bed/tree" bash dash coreutils
mkdir -p "$bed/tree/scripts"
ln -sf dash "$bed/tree/usr/bin/sh"
install -m 755 /dev/stdin "$bed/tree/scripts/container_entry.sh" <<<'#!/bin/sh'
made gib-empty
cp "$here/programs/container_entry.sh" "$bed/tree/scripts/"
made gib
echo Socket >"$bed/tree/scripts/network"
made gib-sockets
rm -rf "$bed/tree"

bash "$here/debian.sh" "$bed/tree" bash dash coreutils grep hostname openssh-client openssh-server openmpi-bin python3 python3-mpi4py util-linux
ln -sf dash "$bed/tree/usr/bin/sh"
# Waiting ranks yield, because sixteen ranks share a few cores.
echo "mpi_yield_when_idle = 1" >>"$bed/tree/etc/openmpi/openmpi-mca-params.conf"
cp "$here/programs/nvidia-smi" "$bed/tree/usr/bin/"
mkdir -p "$bed/tree/third_party/nccl-tests/build"
for name in all_reduce_perf all_gather_perf; do
  cp "$here/programs/collective.py" "$bed/tree/third_party/nccl-tests/build/$name"
done
made mpi
python3 "$here/image.py" "$bed/registry" program talk "$here/programs/talk" >"$bed/image-talk"
python3 "$here/image.py" "$bed/registry" program evidence "${BED_PROGRAM:?}" "$here/programs/nvidia-smi" >"$bed/image-evidence"
