#!/usr/bin/env bash
# Started by mpirun for each rank: applies gIB's settings for this machine type, then the chart's, and runs the program.
# NCCL_NET names gIB, so that NCCL fails instead of silently using sockets.
gib=${TESTBED_GIB:-/usr/local/gib}
run=${TESTBED_RUN:-/run/testbed}
if [[ ! -r $gib/scripts/set_nccl_env.sh ]]; then
  echo "$(hostname): gIB is missing: cannot read $gib/scripts/set_nccl_env.sh" >&2
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
