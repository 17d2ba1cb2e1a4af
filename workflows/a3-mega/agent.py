"""Installs Burnin's agent on the login node, which has sbatch and the shared folder. The agent pulls this cluster's commands, so
it needs no inbound connection. Without _AGENT no agent is installed.

The subscription is in the cluster's project, where the steps have the required rights: in Burnin's project they could change the
subscriptions of the services. `agent_members` of infra/ grants the rights of the agent's account in Burnin's project.
"""

import json

from subprocesses import at, call, read_parameters, run_step
from deploy import found
from toolkit import put


def subscriptions(record):
    """Names of the subscriptions with this cluster's label."""
    listed = call(["gcloud", "pubsub", "subscriptions", "list", f"--project={record['project']}", "--format=json",
                   f"--filter=labels.burnin-cluster={record['cluster']}"], shown=False)
    return [subscription["name"].rpartition("/")[2] for subscription in json.loads(listed)]


def install():
    wanted, machine = read_parameters(), found()["login"]
    if not wanted["agent"]:
        print("_AGENT is empty: no agent is installed", flush=True)
        return
    described = call(["gcloud", "compute", "instances", "describe", machine, f"--project={wanted['project']}", f"--zone={wanted['zone']}",
                      "--format=json"], shown=False)
    account = json.loads(described)["serviceAccounts"][0]["email"]
    record = {"cluster": wanted["cluster"], "project": wanted["project"], "subscription": f"{wanted['short']}-agent"}
    home = wanted["home"] or wanted["project"]
    # The record is stored before any resource is created, so that the teardown can remove all of them.
    with open("agent.json", "w", encoding="utf-8") as file:
        json.dump(record, file, indent=1)
    put(wanted["state"], "agent.json")
    if record["subscription"] not in subscriptions(record):
        call(["gcloud", "pubsub", "subscriptions", "create", record["subscription"], f"--project={record['project']}",
              f"--topic=projects/{home}/topics/{wanted['topics']}agent",
              f"--message-filter=attributes.cluster = \"{wanted['cluster']}\"", "--ack-deadline=600", "--message-retention-duration=1d",
              "--expiration-period=31d",
              f"--labels=burnin-cluster={wanted['cluster']},burnin-run={wanted['run']},burnin-expires={wanted['expires']}"])
    call(["gcloud", "pubsub", "subscriptions", "add-iam-policy-binding", record["subscription"], f"--project={record['project']}",
          f"--member=serviceAccount:{account}", "--role=roles/pubsub.subscriber"], shown=False)
    with open("job/agent.sh", encoding="utf-8") as file:
        script = file.read()
    words = [wanted["agent"], wanted["agent_sha256"], wanted["cluster"], f"projects/{record['project']}/subscriptions/{record['subscription']}",
             home, wanted["topics"], f"gs://{wanted['artefacts']}"]
    at(wanted, machine, f"bash -s -- {' '.join(words)}", script, timeout=600)


if __name__ == "__main__":
    run_step(install)
