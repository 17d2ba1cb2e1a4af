"""Destroys the cluster's resources after a complete or partial deployment, then writes the remaining ones to gone.json.

Cluster, image and base are destroyed from their stored folders. Resources that are not in Terraform's state (machines created by
Slurm's controller or Packer, images, foreign firewall rules on the deployment's networks) are found by label and
by name.
"""

import json
import re

from agent import subscriptions
from subprocesses import Failed, active_account, call, read_parameters, run_step
from toolkit import Deployment, get
from toolkit import listed as stored

# Kinds of resources that may remain, each with gcloud's command and whether its resources have labels. Networks have no labels and are
# found by name; Slurm's bucket has another name (toolkit, slurm_files.tf) and the deployment's labels.
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
    """The cluster's resources of a kind, as the provider lists them."""
    words, labeled = KINDS[kind]
    condition = f"name~^(.*/)?{wanted['short']}-"
    # Foreign rules and subnetworks block the deletion of the deployment's networks.
    if kind in ("firewall rule", "subnetwork"):
        condition += f" OR network~/{wanted['short']}-"
    if labeled:
        condition += f" OR labels.burnin-cluster={wanted['cluster']}"
    more = ["--no-standard-images"] if kind == "image" else []
    output = call(["gcloud", *words, "list", f"--project={wanted['project']}", f"--filter={condition}", "--format=json", *more], shown=False)
    return [resource for resource in json.loads(output) if not is_kept(wanted, resource)]


def is_kept(wanted, resource):
    """Whether a resource belongs to a part kept for later runs: by the toolkit's label, else by the name that deploy.py sets."""
    deployment = resource.get("labels", {}).get("ghpc_deployment", "")
    names = {"base": rf"{wanted['short']}-(net|subnet|home|lustre)\b", "image": rf"{wanted['short']}-image\b"}
    on = resource.get("network", "").rpartition("/")[2]
    return any(deployment == f"{wanted['short']}-{part}" or re.match(names[part], resource["name"].rpartition("/")[2])
               or (part == "base" and on == wanted["network"]) for part in wanted["keep"])


def remove(wanted, kind):
    """Deletes the remaining resources of a kind. A failed deletion is printed; the final list reports the resource."""
    for resource in listed(wanted, kind):
        name = resource["name"]
        words = ["gcloud", *KINDS[kind][0], "delete", name, f"--project={wanted['project']}", "--quiet"]
        for place in ("zone", "region"):
            if place in resource:
                words.append(f"--{place}={resource[place].rpartition('/')[2]}")
        attempt(f"{kind} {name}", lambda: call(words))


def attempt(what, step):
    """Runs one deletion. A failure is printed and does not stop the teardown: the next teardown repeats it."""
    try:
        step()
        return True
    except (Failed, OSError) as failed:
        print(f"{what}: {failed}", flush=True)
        return False


def destroy_part(wanted, part):
    """Destroys a part from its stored folder. Retries once, because some resources are released with a delay."""
    deployment = Deployment(wanted, part)
    if not deployment.fetch():
        print(f"{deployment.name}: no stored folder, nothing was deployed", flush=True)
        return True
    return attempt(deployment.name, deployment.destroy) or attempt(deployment.name, deployment.destroy)


def remove_agent(wanted):
    """Removes the agent's subscription, and its grant with it. Returns the remaining subscriptions."""
    records = stored(wanted["state"], "agent.json")
    if not records:
        return []
    record = json.loads(get(records[0], "dismissed.json"))
    for name in subscriptions(record):
        attempt(f"subscription {name}", lambda name=name: call(["gcloud", "pubsub", "subscriptions", "delete", name, f"--project={record['project']}", "--quiet"]))
    return [f"subscription {name}" for name in subscriptions(record)]


def write_gone(left, evidence):
    with open("gone.json", "w", encoding="utf-8") as file:
        json.dump({"left": left, "evidence": evidence}, file, indent=1)
    print("remaining resources: " + (", ".join(left) or "none"), flush=True)


def destroy():
    parameters = read_parameters()
    asked = stored(parameters["state"], "asked.json")
    if not asked:
        return write_gone([], f"no asked.json in {parameters['state']}: a deployment stores it before it creates a resource, so nothing was created")
    active_account()
    wanted = json.loads(get(asked[0], "deployed.json")) | parameters
    destroy_part(wanted, "cluster")
    for kind in ("instance", "instance template", "resource policy", "disk"):
        remove(wanted, kind)
    if "image" not in wanted["keep"]:
        destroy_part(wanted, "image")
        remove(wanted, "image")
    if "base" not in wanted["keep"]:
        remove(wanted, "firewall rule")
        destroy_part(wanted, "base")
    left = remove_agent(wanted) + [f"{kind} {resource['name']}" for kind in KINDS for resource in listed(wanted, kind)]
    evidence = f"gcloud's lists of {wanted['project']}, by the name {wanted['short']}- and by the label burnin-cluster: " + ", ".join([*KINDS, "subscription"])
    write_gone(left, evidence)


if __name__ == "__main__":
    run_step(destroy)
