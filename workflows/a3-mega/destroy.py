"""Takes down what bears the cluster's name, however far the deployment came, and says in gone.json what is left.

From the folders that were kept: the cluster, the image, the base. What Terraform does not know (machines that Slurm's
controller or Packer made, images, other people's firewall rules on our networks) is found by label and by name.
"""

import json

from agent import change, subscriptions
from subprocesses import Failed, call, end, read_parameters
from toolkit import Deployment, get
from toolkit import listed as stored

# What may be left: how it is listed, and whether it takes labels. Networks do not, and go by their names.
KINDS = {
    "instance": (["compute", "instances"], True),
    "instance template": (["compute", "instance-templates"], False),
    "disk": (["compute", "disks"], True),
    "image": (["compute", "images"], True),
    "address": (["compute", "addresses"], True),
    "resource policy": (["compute", "resource-policies"], False),
    "router": (["compute", "routers"], False),
    "firewall rule": (["compute", "firewall-rules"], False),
    "subnetwork": (["compute", "networks", "subnets"], False),
    "network": (["compute", "networks"], False),
    "file store": (["filestore", "instances"], True),
    "bucket": (["storage", "buckets"], False),
}


def listed(wanted, kind):
    """Everything of a kind that is ours, by the provider's own list."""
    words, labelled = KINDS[kind]
    mine = f"name~^(.*/)?{wanted['short']}-"
    # Foreign rules and subnetworks on our networks block their deletion.
    if kind in ("firewall rule", "subnetwork"):
        mine += f" OR network~/{wanted['short']}-"
    if labelled:
        mine += f" OR labels.burnin-cluster={wanted['cluster']}"
    more = ["--no-standard-images"] if kind == "image" else []
    said = call(["gcloud", *words, "list", f"--project={wanted['project']}", f"--filter={mine}", "--format=json", *more], shown=False)
    return json.loads(said)


def remove(wanted, kind):
    """Removes what is ours of a kind and still there. What cannot be removed is left to the list at the end."""
    for thing in listed(wanted, kind):
        name = thing["name"]
        words = ["gcloud", *KINDS[kind][0], "delete", name, f"--project={wanted['project']}", "--quiet"]
        if "zone" in thing:
            words.append(f"--zone={thing['zone'].rpartition('/')[2]}")
        attempt(f"{kind} {name}", lambda: call(words))


def attempt(what, step):
    """Goes on after a failure: what is left is listed, and the next teardown goes on from there."""
    try:
        step()
        return True
    except (Failed, OSError) as failed:
        print(f"{what}: {failed}", flush=True)
        return False


def down(wanted, part):
    """Destroys a part from its folder, a second time when the first one fails: some things take a moment to let go."""
    deployment = Deployment(wanted, part)
    if not deployment.fetch():
        print(f"{deployment.name}: never began", flush=True)
        return True
    return attempt(deployment.name, deployment.destroy) or attempt(deployment.name, deployment.destroy)


def dismiss(wanted):
    """Takes back what the agent had. What is left of it."""
    kept = stored(wanted["state"], "agent.json")
    if not kept:
        return []
    kept = json.loads(get(kept[0], "dismissed.json"))
    # On a second teardown they are not there any more.
    for right in kept["rights"]:
        attempt(f"right on {right['is'][0]}", lambda right=right: change("remove", right))
    for name in subscriptions(kept):
        attempt(f"subscription {name}", lambda name=name: call(["gcloud", "pubsub", "subscriptions", "delete", name, f"--project={kept['home']}", "--quiet"]))
    return [f"subscription {name}" for name in subscriptions(kept)]


def gone(left, evidence):
    with open("gone.json", "w", encoding="utf-8") as file:
        json.dump({"left": left, "evidence": evidence}, file, indent=1)
    print("left: " + (", ".join(left) or "nothing"), flush=True)


def destroy():
    told = read_parameters()
    kept = stored(told["state"], "asked.json")
    if not kept:
        return gone([], f"nothing is kept in {told['state']}, where a deployment says what it wants before it makes anything")
    wanted = json.loads(get(kept[0], "deployed.json")) | told
    down(wanted, "cluster")
    for kind in ("instance", "instance template", "resource policy", "disk"):
        remove(wanted, kind)
    down(wanted, "image")
    remove(wanted, "image")
    remove(wanted, "firewall rule")
    down(wanted, "base")
    left = dismiss(wanted) + [f"{kind} {thing['name']}" for kind in KINDS for thing in listed(wanted, kind)]
    evidence = f"gcloud's lists of {wanted['project']}, by the name {wanted['short']}- and by the label burnin-cluster: " + ", ".join([*KINDS, "subscription"])
    gone(left, evidence)


if __name__ == "__main__":
    end(destroy)
