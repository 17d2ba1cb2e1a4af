"""Checks that the tasks of a job form one MPI world.

As a task of a job, `mpi_world_check.py rank HOW GPUS` prints one line of JSON: rank, size of its world and visible GPUs. HOW is
`mpi` (read from the MPI library: a rank that was started separately reports 0 of 1) or `slurm` (read from Slurm's variables).
GPUS is `none`, `devices` or `nvidia-smi`.
`mpi_world_check.py judge NODES RANKS GPUS` reads those lines, and exits with 1 and a reason unless they are NODES times RANKS ranks
of one world with GPUS different GPUs per node. Standard library only.
"""

import ctypes
import ctypes.util
import json
import os
import re
import subprocess
import sys

MARK = "burnin-world "


def by_mpi():
    """Rank and size, from this host's MPI library after MPI_Init."""
    names = ["libmpi.so.40", "libmpi.so.12", ctypes.util.find_library("mpi") or "libmpi.so"]
    for name in names:
        try:
            mpi = ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
            break
        except OSError:
            continue
    else:
        raise SystemExit("no MPI library on this host (libmpi.so); install one, or set _MPI=none")
    # Open MPI's communicators are addresses of its variables, MPICH's are numbers.
    try:
        world = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, "ompi_mpi_comm_world")))
    except ValueError:
        world = ctypes.c_int(0x44000000)
    rank, size = ctypes.c_int(-1), ctypes.c_int(-1)
    if mpi.MPI_Init(None, None):
        raise SystemExit("MPI_Init failed")
    mpi.MPI_Comm_rank(world, ctypes.byref(rank))
    mpi.MPI_Comm_size(world, ctypes.byref(size))
    # All ranks end together: a rank that waits for absent ones is ended by the job's time limit.
    mpi.MPI_Barrier(world)
    mpi.MPI_Finalize()
    return rank.value, size.value


def gpus(how):
    if how == "none":
        return []
    visible = [word for word in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if word]
    if how == "devices":
        return [gpu for gpu in visible if os.access(f"/dev/nvidia{gpu}", os.R_OK | os.W_OK)]
    try:
        smi = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60, check=False)
    except OSError as error:
        raise SystemExit(f"nvidia-smi cannot be run in a job: {error}") from error
    return re.findall(r"UUID: (GPU-[0-9a-f-]+)", smi.stdout)


def rank_main(how, probe):
    if how == "mpi":
        rank, size = by_mpi()
    else:
        rank, size = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
    node = os.environ.get("SLURMD_NODENAME", "")
    # A single write, so that lines of several ranks do not interleave.
    line = json.dumps({"rank": rank, "size": size, "node": node, "gpus": gpus(probe)})
    os.write(1, f"{MARK}{line}\n".encode())


def judge(text, nodes, ranks, devices):
    """Returns the reason why these are not the ranks of one world, or None."""
    found = [json.loads(line.partition(MARK)[2]) for line in text.splitlines() if MARK in line]
    wanted = nodes * ranks
    if len(found) != wanted:
        return f"expected {wanted} tasks, found {len(found)}"
    sizes = sorted({one["size"] for one in found})
    if sizes != [wanted]:
        return (f"expected one world of {wanted} ranks, found worlds of {', '.join(map(str, sizes))}: the ranks did not "
                "connect; set _MPI to the type of this MPI library (srun --mpi=list)")
    if sorted(one["rank"] for one in found) != list(range(wanted)):
        return f"expected each rank from 0 to {wanted - 1} once"
    places = {}
    for one in found:
        places.setdefault(one["node"], []).append(one)
    if len(places) != nodes or any(len(here) != ranks for here in places.values()):
        counts = ", ".join(f"{node or '?'}: {len(here)}" for node, here in sorted(places.items()))
        return f"expected {ranks} ranks on each of {nodes} nodes, found {counts}"
    for node, here in sorted(places.items()):
        seen = {gpu for one in here for gpu in one["gpus"]}
        if len(seen) != devices:
            return f"expected {devices} GPUs in a job on {node}, found {len(seen)}"
    return None


def main():
    if sys.argv[1] == "rank":
        return rank_main(*sys.argv[2:])
    reason = judge(sys.stdin.read(), *map(int, sys.argv[2:]))
    if reason:
        print(reason, file=sys.stderr)
        return 1
    print("one world")
    return 0


if __name__ == "__main__":
    sys.exit(main())
