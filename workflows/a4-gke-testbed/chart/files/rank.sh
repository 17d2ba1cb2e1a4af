#!/usr/bin/env bash
# What mpirun starts for each rank: gIB's own settings for this machine type, ours after them, then the program.
# gIB is named, so that NCCL fails where it would otherwise use sockets without a word.
gib=${TESTBED_GIB:-/usr/local/gib}
run=${TESTBED_RUN:-/run/testbed}
if [[ ! -r $gib/scripts/set_nccl_env.sh ]]; then
  echo "$(hostname): gIB is not there: $gib/scripts/set_nccl_env.sh cannot be read" >&2
  exit 88
fi
export LD_LIBRARY_PATH=$gib/lib64:/usr/local/nvidia/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
unset NCCL_DEBUG_FILE NCCL_TESTS_SPLIT NCCL_TESTS_SPLIT_MASK
# shellcheck source=/dev/null
source "$gib/scripts/set_nccl_env.sh"
# shellcheck source=/dev/null
source "$run/nccl.env" || exit 88
export NCCL_NET=gIB NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,ENV
exec "$@"
