"""Destroys the cluster's resources, then writes gone.json: the remaining resources as the providers list them."""

import json
import os
import sys
import tarfile

import agent
import gke
import objects
import parameters
import tools
from tools import Failed

RELEASED = "jobset,secret,configmap,service"
# On an existing cluster only. The namespace is last, because its deletion deletes all objects in it.
OURS = ",".join(kind.lower() for kind in reversed(objects.KINDS))


def listed(values):
    """Remaining resources of a deployment, as gcloud lists them, and the evidence. Networks have no labels and are found by name."""
    label, name = f"labels.burnin-cluster={values['cluster']}", f"name~^{values['deployment']}-"
    queries = (
        ("cluster", ("container", "clusters", "list", f"--filter=resourceLabels.burnin-cluster={values['cluster']}")),
        ("instance", ("compute", "instances", "list", f"--filter={label}")),
        ("disk", ("compute", "disks", "list", f"--filter={label}")),
        ("firewall rule", ("compute", "firewall-rules", "list", f"--filter=network~/{values['deployment']}-")),
        ("address", ("compute", "addresses", "list", f"--filter={name}")),
        ("router", ("compute", "routers", "list", f"--filter={name}")),
        ("subnetwork", ("compute", "networks", "subnets", "list", f"--filter={name}")),
        ("network", ("compute", "networks", "list", f"--filter={name}")),
        ("account", ("iam", "service-accounts", "list", f"--filter=email~^{values['deployment']}-")),
    )
    left = []
    for kind, words in queries:
        field = "email" if kind == "account" else "name"
        for each in tools.read("gcloud", *words, "--project", values["project"], f"--format=json({field})") or []:
            left.append(f"{kind} {each[field]}")
    return left, ", ".join(kind for kind, _ in queries) + ": listed by label or name, by gcloud"


def destroy_deployment(values):
    """Destroys the deployment with Cluster Toolkit.

    Retries once, after deleting the firewall rules that GKE leaves in the deployment's networks.
    """
    if not tools.fetch(values["state"], "deployment.tar"):
        print("no stored deployment: nothing was deployed")
        return
    with tarfile.open("deployment.tar") as archive:
        archive.extractall(".", filter="data")
    if tools.read("gcloud", "container", "clusters", "list", f"--filter=name={values['deployment']}", *gke.location(values), "--format=json(name)"):
        # Terraform deletes the toolkit's objects by the API's address.
        try:
            gke.authorize(values, sorted({gke.own_network(), *gke.lasting_networks(values)}))
        except Failed as failed:
            print(f"{failed}; destroying without access to the API by address")
    try:
        tools.run("gcluster", "destroy", values["deployment"], "--auto-approve", limit_s=3600)
    except Failed as failed:
        print(f"{failed}; retrying without the firewall rules in its networks")
        rules = [each.removeprefix("firewall rule ") for each in listed(values)[0] if each.startswith("firewall rule ")]
        if rules:
            tools.run("gcloud", "compute", "firewall-rules", "delete", *rules, "--project", values["project"], "--quiet")
        tools.run("gcluster", "destroy", values["deployment"], "--auto-approve", limit_s=3600)


def remaining_objects(values):
    """The deployment's remaining objects and Helm releases in an existing cluster."""
    label = f"burnin-cluster={values['cluster']}"
    found = [each["kind"].lower() + " " + each["metadata"]["name"] for kinds in (RELEASED, OURS)
             for each in kubectl("get", kinds, label, "--output", "json")]
    releases = tools.read("helm", "list", "--all-namespaces", "--selector", label, "--output", "json") or []
    return found, releases


def kubectl(verb, kinds, label, *more):
    """Runs a kubectl verb for the kinds that the cluster serves: without Kueue or JobSet, their kinds do not exist."""
    known = {line.split(".")[0] for line in tools.run("kubectl", "api-resources", "--output", "name", shown=False).split()}
    plurals = {kind.lower(): plural for kind, plural in objects.PLURALS.items()}
    served = [kind for kind in kinds.split(",") if plurals.get(kind, kind + "s") in known]
    words = ("kubectl", verb, ",".join(served), "--all-namespaces", "--selector", label, *more)
    if not served:
        return []
    return tools.read(*words)["items"] if verb == "get" else tools.run(*words, limit_s=660)


def remove_objects(values):
    """Removes the deployment's objects from an existing cluster: first objects that use Kueue and JobSet, then Kueue and JobSet if the deployment installed them."""
    clusters = tools.read("gcloud", "container", "clusters", "list", f"--filter=name={values['existing']}", *gke.location(values), "--format=json(name)")
    if not clusters:
        return [], f"gcloud container clusters list: no cluster {values['existing']}"
    gke.get_credentials(values, gke.describe(values))
    label = f"burnin-cluster={values['cluster']}"
    error = None
    try:
        for kinds in (RELEASED, OURS):
            kubectl("delete", kinds, label, "--ignore-not-found", "--wait", "--timeout=600s")
        for release in remaining_objects(values)[1]:
            tools.run("helm", "uninstall", release["name"], "--namespace", release["namespace"], "--wait", limit_s=660)
    except Failed as failed:
        error = failed
        print(error)
    found, releases = remaining_objects(values)
    left = found + [f"release {release['name']}" for release in releases]
    return left, f"kubectl get {RELEASED},{OURS} and helm list, by label {label}" + (f"; {error}" if error else "")


def destroy():
    values = parameters.read()
    # The stored parameters of the deployment take precedence: the current substitutions may differ.
    if tools.fetch(values["state"], "ordered.json"):
        with open("ordered.json", encoding="utf-8") as file:
            values = {**json.load(file), "state": values["state"]}
    if values["existing"]:
        left, evidence = remove_objects(values)
    else:
        error = None
        try:
            destroy_deployment(values)
        except Failed as failed:
            error = failed
            print(error, file=sys.stderr)
        left, evidence = listed(values)
        evidence += f"; {error}" if error else ""
    left = left + agent.remove(values)
    evidence += "; subscription: listed by label, by gcloud"
    with open("gone.json.new", "w", encoding="utf-8") as file:
        json.dump({"left": left, "evidence": evidence}, file, indent=1)
    os.replace("gone.json.new", "gone.json")
    print(f"remaining resources: {', '.join(left) or 'none'}")


if __name__ == "__main__":
    try:
        sys.exit(parameters.run_step({"destroy": destroy}))
    except Failed as failed:
        # If the remaining resources cannot be listed, no gone.json is written, and Burnin repeats the teardown.
        print(f"{sys.argv[1]}: {failed}", file=sys.stderr)
        sys.exit(1)
