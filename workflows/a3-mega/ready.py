"""`ready.py wait`: until the cluster takes jobs, or it is known why not. `ready.py prepare`: what jobs need, and cluster.json."""

import json
import re
import shlex
import sys
import time

from subprocesses import Failed, at, call, end, pins, read_parameters
from deploy import found

GPUS = 8
LONGEST_PAUSE = 20


def login(wanted):
    """The login machine, by its name."""
    said = call(["gcloud", "compute", "instances", "list", f"--project={wanted['project']}", "--format=json",
                 f"--filter=name~^{wanted['short']}-login AND labels.burnin-cluster={wanted['cluster']}"], shown=False)
    machines = json.loads(said)
    if len(machines) != 1:
        raise ValueError(f"expected one login machine, found {[machine['name'] for machine in machines]}")
    return machines[0]["name"]


def states(said):
    """Nodes and their states, as ready.sh prints them."""
    return dict(re.findall(r"^node (\S+) (\S+)$", said, re.MULTILINE))


def missing(wanted, said):
    """What is not as it should be yet; nothing when all is."""
    nodes = states(said)
    idle = [node for node, state in nodes.items() if state == "idle"]
    if "login ready" not in said:
        return "Slurm is not set up on the login machine"
    if not re.search(r"^partition up$", said, re.MULTILINE):
        return f"partition {wanted['partition']} is not up"
    if len(idle) != wanted["nodes"] or len(nodes) != wanted["nodes"]:
        return f"{len(idle)} of {wanted['nodes']} nodes are idle: " + ", ".join(f"{node} {state}" for node, state in sorted(nodes.items()))
    return None


def wait():
    wanted = read_parameters()
    with open("job/ready.sh", encoding="utf-8") as file:
        script = file.read()
    deadline = time.monotonic() + 60 * wanted["ready_minutes"]
    why, said, pause, machine = "it was not looked at", "", 1, None
    while True:
        try:
            machine = machine or login(wanted)
            said = at(wanted, machine, f"bash -s -- {wanted['partition']}", script)
            broken = re.search(r"^setup failed: (.*)$", said, re.MULTILINE)
            if broken:
                raise SystemExit(f"FAILED: the setup of {machine} failed: {broken[1]}")
            why = missing(wanted, said)
        except (Failed, ValueError) as failed:
            why = str(failed)
        if why is None:
            break
        if time.monotonic() + pause > deadline:
            raise ValueError(f"the cluster is not ready after {wanted['ready_minutes']} minutes: {why}")
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)
    found({"login": machine, "nodes": sorted(states(said))})
    print(f"{machine} answers, {len(states(said))} nodes are idle", flush=True)


def prepare():
    wanted, known, pin = read_parameters(), found(), pins()
    machine, folder = known["login"], f"burnin-{wanted['short']}"
    at(wanted, machine, f"mkdir -p {folder}")
    call(["gcloud", "compute", "scp", "--recurse", f"--project={wanted['project']}", f"--zone={wanted['zone']}", "--tunnel-through-iap",
          "--quiet", "job", f"{machine}:{folder}/"])
    words = [wanted["partition"], str(wanted["nodes"]), wanted["container"], wanted["container_digest"], pin["nccl_tests"]["commit"],
             wanted["storage"], wanted.get("lustre_mount", "/home"), known["server_ip"] + ":" + known["remote_mount"]]
    said = at(wanted, machine, f"bash {folder}/job/prepare.sh {shlex.join(words)}", timeout=3600)
    shared = re.search(r"^shared folder: (/\S+)$", said, re.MULTILINE)
    if not shared:
        raise ValueError("prepare.sh did not say which folder is shared")
    slurm = {"shared_folder": shared[1], "partition": wanted["partition"], "profile": f"{shared[1]}/job/profile.sh",
             "programs": f"{shared[1]}/nccl-tests-{pin['nccl_tests']['commit']}/build"}
    with open("cluster.json", "w", encoding="utf-8") as file:
        json.dump({"nodes": [{"name": node, "slots": GPUS} for node in known["nodes"]], "slurm": slurm}, file, indent=1)


if __name__ == "__main__":
    end({"wait": wait, "prepare": prepare}[sys.argv[1]])
