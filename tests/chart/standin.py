"""Stand-in for one program; records its calls. STANDIN_FAULTS contains the injected faults by name."""

import json
import os
import re
import signal
import subprocess
import sys

name, args = sys.argv[1], sys.argv[2:]
folder, faults = os.environ["STANDIN"], json.loads(os.environ["STANDIN_FAULTS"])
with open(os.path.join(folder, "calls"), "a", encoding="utf-8") as calls:
    shown = {key: value for key, value in os.environ.items() if key.startswith(("NCCL_", "LD_LIBRARY"))}
    calls.write(json.dumps({"name": name, "args": args, "env": shown}) + "\n")


def option(word):
    return args[args.index(word) + 1]


def ssh():
    """Runs a pod's command in that pod's folder, by a real ssh client and sshd if they are set."""
    host, words = args[-2], args[-1]
    index = int(re.search(r"-workload-0-(\d+)\.bed\.tests\.svc\.cluster\.local$", host).group(1))
    words = words.replace(os.environ["TESTBED_RUN"], os.path.join(folder, "run", str(index)))
    port = json.loads(os.environ["STANDIN_PORTS"])[index]
    if port:
        config = args[: args.index("-F") + 2]
        os.execv("/usr/bin/ssh", ["ssh", *config, "-o", "HostName=127.0.0.1", "-p", str(port), host, words])
    if not os.path.exists(os.path.join(folder, "run", str(index), "sshd.pid")):
        print(f"ssh: connect to host {host} port 2222: Connection refused", file=sys.stderr)
        return 255
    return subprocess.run(["sh", "-c", words], check=False).returncode


def sshd():
    with open(os.path.join(os.environ["TESTBED_RUN"], "sshd.pid"), "w", encoding="utf-8") as file:
        file.write(str(os.getpid()))
    signal.pause()


def nvidia_smi():
    for gpu in range(faults.get("gpus", 8)):
        print(f"{gpu}, NVIDIA B200, 00000000:{gpu:02X}:00.0, 570.1, {faults.get('ecc', 0)}")
    return 0


def mpirun():
    hosts = [line.split()[0] for line in open(option("--hostfile"), encoding="utf-8")]
    command = args[args.index("oob_tcp_if_include") + 2 :]
    if command == ["hostname"]:
        if "connectivity" in faults:
            print("ORTE was unable to reliably start one or more daemons.", file=sys.stderr)
            return faults["connectivity"]
        for host in hosts[: faults.get("spans", len(hosts))]:
            print("\n".join([host.split(".")[0]] * 8))
        return 0
    # Only rank 0 is executed, with rank.sh; rank 0 also prints the lines of the other ranks.
    return subprocess.run(command, env={**os.environ, "RANKS": option("-np")}, check=False).returncode


# The table has the format of nccl-tests 2.19.6.
HEADER = """# nccl-tests version 2.19.6 nccl-headers=22809 nccl-library=22809
# Collective test starting: {name}
# nThread 1 nGpus 1 minBytes {first} maxBytes {last} step: {factor}(factor) warmup iters: 10 iters: 20 agg iters: 1 validation: 1 graph: 0 unalign: 0
#
# Using devices"""
COLUMNS = """#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)"""


def collective():
    ranks = int(os.environ["RANKS"])
    network = faults.get("network", os.environ["NCCL_NET"])
    if name == "all_reduce_perf" and faults.get("hang"):
        signal.pause()
    for rank in range(ranks):
        host = f"bed-workload-0-{rank // 8}"
        print(f"{host}:{100 + rank}:{200 + rank} [{rank % 8}] NCCL INFO Using network {network}")
    if name == "all_reduce_perf" and "all_reduce" in faults:
        print("Test NCCL failure common.cu:1023 'unhandled system error'")
        return faults["all_reduce"]
    print(HEADER.format(name=name, first=option("-b"), last=option("-e"), factor=option("-f")))
    for rank in range(ranks):
        print(f"#  Rank {rank:2} Group  0 Pid {100 + rank:6} on bed-workload-0-{rank // 8} device {rank % 8:2} [0000:{rank % 8:02x}:00] NVIDIA B200")
    print(COLUMNS)
    size, last = int(option("-b")), int(option("-e"))
    factor = 2 * (ranks - 1) / ranks if name == "all_reduce_perf" else (ranks - 1) / ranks
    redop = "sum" if name == "all_reduce_perf" else "none"
    while size <= (last >> 1 if faults.get("short") else last):
        time_us = 50 + size / 200e3
        algbw = size / time_us / 1e3
        cells = f"{time_us:8.1f} {algbw:7.2f} {algbw * factor:7.2f}      0"
        print(f"{size:12} {size // 4:12}     float {redop:>7}      -1 {cells} {cells}")
        size *= int(option("-f"))
    print("# Out of bounds values : 0 OK")
    print(f"# Avg bus bandwidth    : 123.456\n#\n# Collective test concluded: {name}\n#")
    with open(option("-J"), "w", encoding="utf-8") as file:
        json.dump({"program": name, "ranks": ranks}, file)
    return 0


programs = {"ssh": ssh, "sshd": sshd, "nvidia-smi": nvidia_smi, "mpirun": mpirun}
sys.exit(programs.get(name, collective)())
