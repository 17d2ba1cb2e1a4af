#!/bin/sh
# Plays the installer of gIB in an image: what it installs is its settings, nothing else. BED_GIB tells of another network.
mkdir -p /usr/local/gib/scripts /usr/local/gib/lib64
echo "export NCCL_FROM_GIB=1 BED_NETWORK=$(cat /scripts/network 2>/dev/null)" >/usr/local/gib/scripts/set_nccl_env.sh
