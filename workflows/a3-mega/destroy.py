"""Takes down what bears the cluster's name, however far the deployment came, and says in gone.json what is left.

From the folders that were kept: the cluster, the image, the base. What Terraform does not know (machines that Slurm's
controller or Packer made, images, other people's firewall rules on our networks) is found by label and by name.
"""

import json
import re

from agent import change, subscriptions
from subprocesses import Failed, active_account, call, end, read_parameters
from toolkit import Deployment, get
from toolkit import listed as stored

# Resources that may remain: how they are listed, and whether they have labels. Networks have none and are found by name; Slurm's
# bucket has a name of its own (toolkit, slurm_files.tf) and our labels.
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
    "bucket": (["storage", "buckets"], True),
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
    return [thing for thing in json.loads(said) if not is_kept(wanted, thing)]


def is_kept(wanted, thing):
    """Whether a resource belongs to a part that stays for later runs: by the toolkit's label, else by the names that deploy.py gives."""
    deployment = thing.get("labels", {}).get("ghpc_deployment", "")
    names = {"base": rf"{wanted['short']}-(net|subnet|home|lustre)\b", "image": rf"{wanted['short']}-image\b"}
    on = thing.get("network", "").rpartition("/")[2]
    return any(deployment == f"{wanted['short']}-{part}" or re.match(names[part], thing["name"].rpartition("/")[2])
               or (part == "base" and on == wanted["network"]) for part in wanted["keep"])


def remove(wanted, kind):
    """Removes what is ours of a kind and still there. What cannot be removed is left to the list at the end."""
    for thing in listed(wanted, kind):
        name = thing["name"]
        words = ["gcloud", *KINDS[kind][0], "delete", name, f"--project={wanted['project']}", "--quiet"]
        for place in ("zone", "region"):
            if place in thing:
                words.append(f"--{place}={thing[place].rpartition('/')[2]}")
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
    active_account()
    wanted = json.loads(get(kept[0], "deployed.json")) | told
    down(wanted, "cluster")
    for kind in ("instance", "instance template", "resource policy", "disk"):
        remove(wanted, kind)
    if "image" not in wanted["keep"]:
        down(wanted, "image")
        remove(wanted, "image")
    if "base" not in wanted["keep"]:
        remove(wanted, "firewall rule")
        down(wanted, "base")
    left = dismiss(wanted) + [f"{kind} {thing['name']}" for kind in KINDS for thing in listed(wanted, kind)]
    evidence = f"gcloud's lists of {wanted['project']}, by the name {wanted['short']}- and by the label burnin-cluster: " + ", ".join([*KINDS, "subscription"])
    gone(left, evidence)


if __name__ == "__main__":
    end(destroy)
