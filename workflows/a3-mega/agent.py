"""An agent of Burnin on the login machine, where sbatch and the shared folder are: it pulls this cluster's commands, and nobody
has to reach it. Nothing is done where _AGENT names no program.
"""

import json

from subprocesses import at, call, end, read_parameters
from deploy import found
from toolkit import put


def rights(wanted, account):
    """What the agent's account may: on which thing, as which role. The thing's words are gcloud's."""
    home = wanted["home"] or wanted["project"]
    bucket = ["storage", "buckets"], f"gs://{wanted['artefacts']}"
    own = [
        (["pubsub", "subscriptions"], f"{wanted['short']}-agent", "roles/pubsub.subscriber"),
        (["pubsub", "topics"], f"{wanted['topics']}facts", "roles/pubsub.publisher"),
        (*bucket, "roles/storage.objectViewer"),
        (*bucket, "roles/storage.objectCreator"),
    ]
    # Buckets belong to no project in their names.
    place = lambda words: [] if words[0] == "storage" else [f"--project={home}"]
    return [{"of": words, "is": [name, f"--member=serviceAccount:{account}", f"--role={role}", *place(words)]} for words, name, role in own]


def change(verb, right):
    """`add` or `remove`."""
    call(["gcloud", *right["of"], f"{verb}-iam-policy-binding", *right["is"]], shown=False)


def subscriptions(kept):
    """The cluster's own subscription, if it is there."""
    said = call(["gcloud", "pubsub", "subscriptions", "list", f"--project={kept['home']}", "--format=json",
                 f"--filter=labels.burnin-cluster={kept['cluster']}"], shown=False)
    return [thing["name"].rpartition("/")[2] for thing in json.loads(said)]


def install():
    wanted, machine = read_parameters(), found()["login"]
    if not wanted["agent"]:
        print("no agent is asked for: _AGENT", flush=True)
        return
    said = call(["gcloud", "compute", "instances", "describe", machine, f"--project={wanted['project']}", f"--zone={wanted['zone']}",
                 "--format=json"], shown=False)
    account = json.loads(said)["serviceAccounts"][0]["email"]
    kept = {"cluster": wanted["cluster"], "home": wanted["home"] or wanted["project"], "subscription": f"{wanted['short']}-agent",
            "rights": rights(wanted, account)}
    # Before anything of it is made: a teardown finds there what it has to take back.
    with open("agent.json", "w", encoding="utf-8") as file:
        json.dump(kept, file, indent=1)
    put(wanted["state"], "agent.json")
    if kept["subscription"] not in subscriptions(kept):
        call(["gcloud", "pubsub", "subscriptions", "create", kept["subscription"], f"--project={kept['home']}", f"--topic={wanted['topics']}agent",
              "--ack-deadline=600", "--message-retention-duration=1d", "--expiration-period=31d",
              f"--labels=burnin-cluster={wanted['cluster']},burnin-run={wanted['run']},burnin-expires={wanted['expires']}"])
    for right in kept["rights"]:
        change("add", right)
    with open("job/agent.sh", encoding="utf-8") as file:
        script = file.read()
    words = [wanted["agent"], wanted["agent_sha256"], wanted["cluster"], f"projects/{kept['home']}/subscriptions/{kept['subscription']}",
             kept["home"], wanted["topics"], f"gs://{wanted['artefacts']}"]
    at(wanted, machine, f"bash -s -- {' '.join(words)}", script, timeout=600)


if __name__ == "__main__":
    end(install)
