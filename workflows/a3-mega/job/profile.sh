# Sourced by a job on its first node, before its ranks start. Sets TCPXO's environment as documented, and wraps `srun`, so that
# it checks every node and starts benchmarks in the container. TCPXO's checker ends a job whose values differ: nothing is tuned
# here.
_here=${BASH_SOURCE[0]%/*}
. "$_here/settings.sh"

# If the file is absent, the preflight fails and reports it in the benchmark's log.
if [[ -r /var/lib/tcpxo/lib64/nccl-env-profile.sh ]]; then
  NCCL_LIB_DIR=/var/lib/tcpxo/lib64 . /var/lib/tcpxo/lib64/nccl-env-profile.sh
fi
export NCCL_FASTRAK_CTRL_DEV=enp0s12
export NCCL_FASTRAK_IFNAME=enp6s0,enp7s0,enp13s0,enp14s0,enp134s0,enp135s0,enp141s0,enp142s0
export NCCL_SOCKET_IFNAME=enp0s12
export NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY=/dev/aperture_devices

# Benchmarks run in the container and also write their results as JSON. Pyxis forwards a variable that the image also defines only if it is
# listed.
srun() {
  local words=("$@") at command=0
  # The command follows srun's options: a shell that applies the workflow's environment, then the program.
  while [[ ${words[command]:-} == -* ]]; do command=$((command + 1)); done
  for at in "${!words[@]}"; do
    [[ ${words[at]} == */*_perf ]] || continue
    # Printed to the benchmark's log, so that the verdict can name a node's fault.
    command srun --ntasks-per-node=1 --ntasks="$SLURM_JOB_NUM_NODES" --label bash "$_here/preflight.sh" job || return
    # Storage: all nodes must read a file that one node wrote.
    local mark=$storage_room/.burnin-$SLURM_JOB_ID
    local check=(bash "$_here/storage.sh" "$storage_type" "$storage_folder" "$storage_source" "$mark")
    command srun --nodes=1 --ntasks=1 --label "${check[@]}" write || return
    command srun --ntasks-per-node=1 --ntasks="$SLURM_JOB_NUM_NODES" --label "${check[@]}" || return
    rm -f -- "$mark"
    local variables=(${!NCCL*})
    local IFS=,
    command srun "${words[@]:0:command}" --container-image="$container" --container-env="${variables[*]}" \
      --container-mounts="/var/tmp:/var/tmp,/var/lib/tcpxo/lib64:/var/lib/tcpxo/lib64,$folder:$folder" --container-workdir="$PWD" \
      bash -c 'export LD_LIBRARY_PATH=/var/lib/tcpxo/lib64:/usr/lib/x86_64-linux-gnu:$LD_LIBRARY_PATH; exec "$@"' tcpxo \
      "${words[@]:command}" -J "$PWD/output/nccl-tests.json"
    return
  done
  command srun "$@"
}
