#!/bin/sh
# Replaces gIB's installer in an image: installs only gIB's settings. The optional /scripts/network contains the network that
# NCCL reports.
mkdir -p /var/lib/gib/scripts /var/lib/gib/lib64
echo "export NCCL_FROM_GIB=1 BED_NETWORK=$(cat /scripts/network 2>/dev/null)" >/var/lib/gib/scripts/set_nccl_env.sh
