"""`ready.py wait`: waits until the cluster accepts jobs. `ready.py prepare`: prepares the nodes for jobs and writes cluster.json."""

import json
import re
import shlex
import sys
import time

from subprocesses import Failed, at, call, pins, read_parameters, run_step
from deploy import found

GPUS = 8
LONGEST_PAUSE = 20


def login(wanted):
    """Returns the login node's name. Raises ValueError unless exactly one login node exists."""
    listed = call(["gcloud", "compute", "instances", "list", f"--project={wanted['project']}", "--format=json",
                   f"--filter=name~^{wanted['short']}-login AND labels.burnin-cluster={wanted['cluster']}"], shown=False)
    machines = json.loads(listed)
    if len(machines) != 1:
        raise ValueError(f"expected one login node, found {[machine['name'] for machine in machines]}")
    return machines[0]["name"]


def states(output):
    """State by node, from ready.sh's output."""
    return dict(re.findall(r"^node (\S+) (\S+)$", output, re.MULTILINE))


def missing(wanted, output):
    """The first unmet condition; None when the cluster is ready."""
    nodes = states(output)
    # `plnd` is an idle node that backfill considered for a pending job (backfill.c, _handle_planned).
    idle = [node for node, state in nodes.items() if state in ("idle", "plnd")]
    if "login ready" not in output:
        return "Slurm is not set up on the login node"
    if not re.search(r"^partition up$", output, re.MULTILINE):
        return f"partition {wanted['partition']} is not up"
    if len(idle) != wanted["nodes"] or len(nodes) != wanted["nodes"]:
        return f"{len(idle)} of {wanted['nodes']} nodes are idle: " + ", ".join(f"{node} {state}" for node, state in sorted(nodes.items()))
    return None


def wait():
    wanted = read_parameters()
    with open("job/ready.sh", encoding="utf-8") as file:
        script = file.read()
    deadline = time.monotonic() + 60 * wanted["ready_minutes"]
    why, output, pause, machine = "not checked yet", "", 1, None
    while True:
        try:
            machine = machine or login(wanted)
            output = at(wanted, machine, f"bash -s -- {wanted['partition']}", script)
            broken = re.search(r"^setup failed: (.*)$", output, re.MULTILINE)
            if broken:
                raise SystemExit(f"FAILED: the setup of {machine} failed: {broken[1]}")
            why = missing(wanted, output)
        except (Failed, ValueError) as failed:
            why = str(failed)
        if why is None:
            break
        if time.monotonic() + pause > deadline:
            raise ValueError(f"the cluster is not ready after {wanted['ready_minutes']} minutes: {why}")
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)
    found({"login": machine, "nodes": sorted(states(output))})
    print(f"{machine} responds, {len(states(output))} nodes are idle", flush=True)


def prepare():
    wanted, known, pin = read_parameters(), found(), pins()
    machine, folder = known["login"], f"burnin-{wanted['short']}"
    at(wanted, machine, f"mkdir -p {folder}")
    call(["gcloud", "compute", "scp", "--recurse", f"--project={wanted['project']}", f"--zone={wanted['zone']}", "--tunnel-through-iap",
          "--quiet", "job", f"{machine}:{folder}/"])
    words = [wanted["partition"], str(wanted["nodes"]), wanted["container"], wanted["container_digest"], pin["nccl_tests"]["commit"],
             wanted["storage"], wanted.get("lustre_mount", "/home"), known["server_ip"] + ":" + known["remote_mount"]]
    output = at(wanted, machine, f"bash {folder}/job/prepare.sh {shlex.join(words)}", timeout=3600)
    shared = re.search(r"^shared folder: (/\S+)$", output, re.MULTILINE)
    if not shared:
        raise ValueError("prepare.sh: expected a line `shared folder: /PATH`, found none")
    slurm = {"shared_folder": shared[1], "partition": wanted["partition"], "profile": f"{shared[1]}/job/profile.sh",
             "programs": f"{shared[1]}/nccl-tests-{pin['nccl_tests']['commit']}/build"}
    with open("cluster.json", "w", encoding="utf-8") as file:
        json.dump({"nodes": [{"name": node, "slots": GPUS} for node in known["nodes"]], "slurm": slurm}, file, indent=1)


if __name__ == "__main__":
    run_step({"wait": wait, "prepare": prepare}[sys.argv[1]])
