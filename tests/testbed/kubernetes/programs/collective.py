#!/usr/bin/python3
"""all_reduce_perf and all_gather_perf over MPI on CPUs, with the flags and the output of nccl-tests 2.19.

Times, bandwidths and wrong values are measured over MPI's transport. The lines of NCCL are simulated: they report the network of
NCCL's settings, or BED_NETWORK, which a plug-in's settings may contain.
"""

import argparse
import array
import json
import os
import socket
import sys

from mpi4py import MPI

world = MPI.COMM_WORLD
name = os.path.basename(sys.argv[0])
flags = argparse.ArgumentParser(prog=name)
for flag, default in (("-b", 32 << 20), ("-e", 32 << 20), ("-f", 2), ("-g", 1), ("-n", 20), ("-w", 1), ("-c", 1), ("-N", 1)):
    flags.add_argument(flag, type=int, default=default)
flags.add_argument("-J", default="")
asked = flags.parse_args()
ranks, rank, host = world.size, world.rank, socket.gethostname()
PATTERN = array.array("f", range(251))
reduces = name == "all_reduce_perf"


def values(count, times):
    """`count` floats of a pattern that depends on the index, multiplied by `times`."""
    pattern = array.array("f", (value * times for value in PATTERN))
    return (pattern * (count // len(pattern) + 1))[:count]


def measured(size, in_place):
    """Time of one operation on the slowest rank in microseconds, and the number of wrong values on all ranks."""
    count = size // 4 if reduces else size // 4 // ranks
    sent, own = values(count, rank + 1), slice(rank * count, (rank + 1) * count)
    if reduces:
        received, right = array.array("f", bytes(4 * count)), values(count, ranks * (ranks + 1) // 2)
    else:
        received = array.array("f", bytes(4 * count * ranks))
        right = array.array("f")
        for other in range(ranks):
            right += values(count, other + 1)

    def once():
        if in_place:
            received[slice(0, count) if reduces else own] = sent
        what = MPI.IN_PLACE if in_place else [sent, MPI.FLOAT]
        world.Allreduce(what, [received, MPI.FLOAT]) if reduces else world.Allgather(what, [received, MPI.FLOAT])

    for _ in range(asked.w):
        once()
    world.Barrier()
    start = MPI.Wtime()
    for _ in range(asked.n):
        once()
    took = world.allreduce(MPI.Wtime() - start, MPI.MAX) / asked.n * 1e6
    wrong = 0 if received.tobytes() == right.tobytes() else sum(a != b for a, b in zip(received, right))
    return took, world.allreduce(wrong)


def say(line=""):
    if rank == 0:
        print(line, flush=True)


print(f"{host}:{os.getpid()}:{os.getpid()} [{rank % 8}] NCCL INFO Using network "
      f"{os.environ.get('BED_NETWORK') or os.environ.get('NCCL_NET', 'Socket')}", flush=True)
world.Barrier()
say("# nccl-tests version 2.19.6 nccl-headers=0 nccl-library=0 (over MPI, on processors: the test bed's)")
say(f"# Collective test starting: {name}")
say(f"# nThread 1 nGpus 1 minBytes {asked.b} maxBytes {asked.e} step: {asked.f}(factor) warmup iters: {asked.w} iters: {asked.n} "
    f"agg iters: 1 validation: {asked.c} graph: 0 unalign: 0")
say("#")
say("# Using devices")
for other, (pid, where) in enumerate(world.allgather((os.getpid(), host))):
    say(f"#  Rank {other:2} Group  0 Pid {pid:6} on {where:>10} device {other % 8:2} [0000:{other % 8:02x}:00] processor")
say("#")
say("#                                                              out-of-place                       in-place")
say("#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong")
say("#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)")
factor = 2 * (ranks - 1) / ranks if reduces else (ranks - 1) / ranks
size, buses, bad, rows = asked.b, [], 0, []
while size <= asked.e:
    cells = []
    # The size is rounded down to equal parts for all ranks.
    whole = size if reduces else size // (4 * ranks) * 4 * ranks
    for in_place in (False, True):
        took, wrong = measured(whole, in_place)
        algbw = whole / took / 1e3
        cells.append(f"{took:8.2f} {algbw:7.2f} {algbw * factor:7.2f} {wrong:6}")
        buses.append(algbw * factor)
        bad += wrong
    rows.append({"size": whole})
    count = whole // 4 if reduces else whole // 4 // ranks
    say(f"{whole:12} {count:13} {'float':>9} {'sum' if reduces else 'none':>7} {-1:7} {cells[0]} {cells[1]}")
    size *= asked.f
say(f"# Out of bounds values : {bad} {'FAILED' if bad else 'OK'}")
say(f"# Avg bus bandwidth    : {sum(buses) / len(buses):g}")
say("#")
say(f"# Collective test concluded: {name}")
say("#")
if rank == 0 and asked.J:
    with open(asked.J, "w", encoding="utf-8") as file:
        json.dump({"program": name, "ranks": ranks, "sizes": rows}, file)
world.Barrier()
sys.exit(1 if bad else 0)
