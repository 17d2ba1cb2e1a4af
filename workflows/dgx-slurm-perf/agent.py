"""The agent of the cluster: agent.py fetch|install|remove.

The agent runs on the controller and pulls this cluster's commands from its own subscription, so it needs no inbound connection.
Without _AGENT no agent is installed and gcloud is not called. `remove` writes gone.json in both cases. Standard library only.

The subscription is in the project of the agent's account, where the steps have the required rights: in Burnin's project they could
change the subscriptions of the services. `agent_members` of infra/ grants the account's rights in Burnin's project.
"""

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys

import play

PROGRAM = "agent-program"
RECORD = "agent.json"


class Failed(Exception):
    """A failure; `output` is that of the failed program."""

    def __init__(self, message, output=""):
        super().__init__(message)
        self.output = output


def call(*words):
    """Calls a program and returns its standard output."""
    print("+", shlex.join(words), flush=True)
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", check=False)
    if done.returncode:
        output = done.stdout + done.stderr
        lines = [line.strip() for line in output.splitlines() if line.strip()]
        # gcloud prints details after its error.
        why = next((line for line in lines if line.startswith("ERROR")), (lines or ["no output"])[-1])
        raise Failed(f"{' '.join(words[:2])} failed with exit status {done.returncode}: {why[:600]}", output)
    return done.stdout


def fetch(values):
    """Copies the program into the workspace and checks it."""
    source = values["agent"]
    if not source:
        return
    if source.startswith("gs://"):
        call("gcloud", "storage", "cp", source, PROGRAM)
    elif not os.access(source, os.R_OK):
        raise Failed(f"_AGENT: {source} cannot be read on this host")
    else:
        shutil.copyfile(source, PROGRAM)
    with open(PROGRAM, "rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest() if hasattr(hashlib, "file_digest") else hashlib.sha256(file.read()).hexdigest()
    if found != values["agent_sha256"]:
        raise Failed(f"_AGENT: {source} has the SHA-256 {found}, expected {values['agent_sha256']} (_AGENT_SHA256)")


def record(values):
    """Record of the subscription that `remove` deletes."""
    name = hashlib.sha256(values["cluster"].encode()).hexdigest()[:8]
    project = values["agent_account"].partition("@")[2].removesuffix(".iam.gserviceaccount.com")
    return {"cluster": values["cluster"], "project": project, "subscription": f"b{name}-agent"}


def subscriptions(recorded):
    """Names of the subscriptions with this cluster's label."""
    listed = call("gcloud", "pubsub", "subscriptions", "list", f"--project={recorded['project']}", "--format=json",
                  f"--filter=labels.burnin-cluster={recorded['cluster']}")
    return [subscription["name"].rpartition("/")[2] for subscription in json.loads(listed)]


def state(values):
    """Folder of the cluster's record. Burnin sets it; in a manual run it is next to this file."""
    return values["agent_state"] or os.path.join(values["workspace"], "state")


def stored(values):
    """The record, or None if no resource of the agent was created."""
    place = f"{state(values)}/{RECORD}"
    if not place.startswith("gs://"):
        if not os.path.exists(place):
            return None
        with open(place, encoding="utf-8") as file:
            return json.load(file)
    try:
        call("gcloud", "storage", "ls", place)
    except Failed as failed:
        if "matched no objects" not in failed.output:
            raise
        return None
    call("gcloud", "storage", "cp", place, RECORD)
    with open(RECORD, encoding="utf-8") as file:
        return json.load(file)


def store(values, recorded):
    """Stores the record once; an object is never overwritten."""
    found = stored(values)
    if found == recorded:
        return
    if found is not None:
        raise Failed(f"{state(values)}/{RECORD} describes another agent of {recorded['cluster']}; release the cluster first")
    with open(RECORD, "w", encoding="utf-8") as file:
        json.dump(recorded, file, indent=1)
    if state(values).startswith("gs://"):
        call("gcloud", "storage", "cp", "--if-generation-match=0", RECORD, f"{state(values)}/{RECORD}")
    else:
        os.makedirs(state(values), exist_ok=True)
        shutil.copyfile(RECORD, f"{state(values)}/{RECORD}")


def install(values):
    if not values["agent"]:
        print("_AGENT is empty: no agent is installed", flush=True)
        return 0
    recorded = record(values)
    # The record is stored before any resource is created, so that the release can remove all of them.
    store(values, recorded)
    name = recorded["subscription"]
    if name not in subscriptions(recorded):
        labels = {"burnin-cluster": values["cluster"], "burnin-run": values["agent_run"], "burnin-expires": values["agent_expires"]}
        call("gcloud", "pubsub", "subscriptions", "create", name, f"--project={recorded['project']}",
             f"--topic=projects/{values['agent_project']}/topics/{values['agent_topics']}agent",
             f"--message-filter=attributes.cluster = \"{values['cluster']}\"", "--ack-deadline=600", "--message-retention-duration=1d",
             "--expiration-period=31d", "--labels=" + ",".join(f"{label}={value}" for label, value in labels.items() if value))
    call("gcloud", "pubsub", "subscriptions", "add-iam-policy-binding", name, f"--project={recorded['project']}",
         f"--member=serviceAccount:{values['agent_account']}", "--role=roles/pubsub.subscriber")
    return play.playbook("agent", ["--extra-vars", json.dumps({"agent_subscription": f"projects/{recorded['project']}/subscriptions/{name}"})])


def remove_subscription(recorded):
    """Removes the subscription, and its grant with it. Returns the remaining ones."""
    for name in subscriptions(recorded):
        try:
            call("gcloud", "pubsub", "subscriptions", "delete", name, f"--project={recorded['project']}", "--quiet")
        except Failed as failed:
            print(f"subscription {name}: {failed}", flush=True)
    return [f"subscription {name}" for name in subscriptions(recorded)]


def remove(values):
    left, evidence = [], "release.yml checked every host: no job, drain, file or agent of the deployment remains"
    if values["agent"]:
        recorded = stored(values)
        if recorded:
            left = remove_subscription(recorded)
            evidence += f"; gcloud's list of the subscriptions of {recorded['project']} with the label burnin-cluster={recorded['cluster']}"
        else:
            evidence += f"; no {RECORD} in {state(values)}: an agent's subscription is created after it"
    with open("gone.json", "w", encoding="utf-8") as file:
        json.dump({"left": left, "evidence": evidence}, file, indent=1)
    print("remaining resources: " + (", ".join(left) or "none"), flush=True)
    return 0


def main():
    try:
        return {"fetch": fetch, "install": install, "remove": remove}[sys.argv[1]](play.values())
    except (Failed, OSError, ValueError) as error:
        print(f"FAILED: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
