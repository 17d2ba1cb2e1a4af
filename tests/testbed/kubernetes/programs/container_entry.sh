#!/bin/sh
# Plays the installer of gIB in an image: what it installs is its settings, nothing else. /scripts/network, where there is
# one, names the network that NCCL says it uses.
mkdir -p /var/lib/gib/scripts /var/lib/gib/lib64
echo "export NCCL_FROM_GIB=1 BED_NETWORK=$(cat /scripts/network 2>/dev/null)" >/var/lib/gib/scripts/set_nccl_env.sh
