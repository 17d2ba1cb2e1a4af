"""Stand-ins for commands of the cluster's machines: Slurm's commands, and the commands that preflight, storage and import use.

Each node is a folder `nodes/{name}` with `dev`, `sys`, `gpus`, `mounts` and `rxdm`; absent ones simulate a fault.
"""

import os
import re
import subprocess
import sys

from world import ROOT, World, fail, fault, recorded

NODE = os.environ.get("STANDIN_NODE", "login")


def nodes():
    with World() as world:
        return sorted((name for name in world.things.get("instance", {}) if re.search(r"-gpu-[0-9]+$", name)), key=lambda name: int(name.rpartition("-")[2]))


def folder(name):
    """Returns a node's folder; creates a healthy node unless the test has created the folder before."""
    home = f"{ROOT}/nodes/{name}"
    if not os.path.isdir(home):
        for path in ["dev/aperture_devices/0000:04:00.0", "var/lib/tcpxo/lib64"] + [f"sys/class/net/{nic}" for nic in (
                "enp0s12 enp6s0 enp7s0 enp13s0 enp14s0 enp134s0 enp135s0 enp141s0 enp142s0").split()]:
            os.makedirs(f"{home}/{path}")
        for file, text in (("var/lib/tcpxo/lib64/libnccl-net.so", "x"), ("var/lib/tcpxo/lib64/nccl-env-profile.sh", "x"), ("gpus", "8"),
                           ("rxdm", "receive-datapath-manager-1"), ("mounts", f"/home nfs4 10.1.2.3:/nfsshare\n{ROOT}/data lustre 172.16.0.9@tcp:/exacloud\n")):
            with open(f"{home}/{file}", "w", encoding="utf-8") as handle:
                handle.write(text)
        if message := fault("node"):  # FILE=TEXT replaces a file, FILE= removes it
            file, _, text = message.partition("=")
            os.system(f"rm -rf '{home}/{file}'")
            if text:
                with open(f"{home}/{file}", "w", encoding="utf-8") as handle:
                    handle.write(text)
    return home


def have(file):
    try:
        with open(f"{folder(NODE)}/{file}", encoding="utf-8") as handle:
            return handle.read()
    except FileNotFoundError:
        return ""


def sinfo(words):
    if words == ["--version"]:
        return print("slurm 23.11.8")
    if "--list-reasons" in words:
        return None
    template = next(word.partition("=")[2] for word in words if word.startswith("--format="))
    state = fault("sinfo") or "idle"
    if "%N" in template:
        for node in nodes():
            print(template.replace("%N", node).replace("%t", state))
    else:
        print(template.replace("%a", "up"))
    return None


def srun(words):
    # Replaces values that differ between runs.
    plain = lambda word: re.sub(r"draft-\w{6}", "draft", re.sub(r"\.burnin-[0-9-]+", ".burnin-MARK", word.replace(ROOT, "CLOUD")))
    recorded("srun", [plain(word) for word in words])
    flags = []
    while words and words[0].startswith("--"):
        flags.append(words.pop(0))
    count = next((int(flag[9:]) for flag in flags if flag.startswith("--ntasks=")), 1)
    worst = 0
    for rank, node in enumerate(nodes()[:count]):
        environment = dict(os.environ, STANDIN_NODE=node, PREFLIGHT_ROOT=folder(node))
        if words[0] == "make":
            place = next(flag.partition("=")[2] for flag in flags if flag.startswith("--container-workdir="))
            words = ["bash", "-c", f"mkdir -p '{place}'/build && cd '{place}'/build && touch all_gather_perf all_reduce_perf && chmod +x *_perf"]
        done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        label = f"{rank}: " if "--label" in flags else ""
        for line in done.stdout.splitlines():
            print(label + line, flush=True)
        worst = max(worst, done.returncode)
    sys.exit(worst)


def findmnt(words):
    wanted = words[words.index("--mountpoint") + 1]
    for line in have("mounts").splitlines():
        place, kind, source = line.split()
        if place == wanted:
            return print(kind, source)
    return sys.exit(1)


def git(words):
    if "fetch" in words:
        with open(f"{words[1]}/fetched", "w", encoding="utf-8") as file:
            file.write(words[-1])
    elif "rev-parse" in words:
        print(open(f"{words[1]}/fetched", encoding="utf-8").read())


def enroot(words):
    recorded("enroot", words[:1] + words[3:])
    with open(words[words.index("--output") + 1], "w", encoding="utf-8") as file:
        file.write("hsqs")


def sudo(words):
    words = [word for word in words if word != "-n"]
    sys.exit(subprocess.run(words, check=False).returncode)


def systemctl(words):
    recorded("systemctl", words)


def curl(words):
    if message := fault("agent"):
        fail(message, 7)


def journalctl(words):
    print("burnin-agent: last log line")


def main():
    program, *words = sys.argv[1:]
    if program == "hostname":
        print(NODE)
    elif program == "nvidia-smi":
        print("\n".join(f"GPU {number}: NVIDIA H100 80GB HBM3" for number in range(int(have("gpus") or 0))))
    elif program == "docker":
        print(have("rxdm").strip())
    elif program in ("sinfo", "srun", "findmnt", "git", "enroot", "sudo", "systemctl", "curl", "journalctl"):
        globals()[program](words)
    else:
        fail(f"{program}: no such stand-in", 127)


if __name__ == "__main__":
    main()
