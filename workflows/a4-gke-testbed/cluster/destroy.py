"""Takes down what bears the cluster's name, and writes gone.json with what is left by the providers' own lists."""

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
# Only on an existing cluster: the namespace last, because its deletion deletes everything in it.
OURS = ",".join(kind.lower() for kind in reversed(objects.KINDS))


def listed(values):
    """Everything that exists of a deployment, by each service's list. Networks bear no labels, but its name."""
    label, name = f"labels.burnin-cluster={values['cluster']}", f"name~^{values['deployment']}-"
    asked = (
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
    for kind, words in asked:
        field = "email" if kind == "account" else "name"
        for each in tools.read("gcloud", *words, "--project", values["project"], f"--format=json({field})") or []:
            left.append(f"{kind} {each[field]}")
    return left, ", ".join(kind for kind, _ in asked) + ": listed by label or name, by gcloud"


def take_down(values):
    """By Cluster Toolkit, if it ever began. A second time after what GKE leaves in our networks is removed."""
    if not tools.fetch(values["state"], "deployment.tar"):
        print("no deployment was ever begun")
        return
    with tarfile.open("deployment.tar") as archive:
        archive.extractall(".", filter="data")
    try:
        tools.run("gcluster", "destroy", values["deployment"], "--auto-approve", limit_s=3600)
    except Failed as failed:
        print(f"{failed}; once more without the firewall rules in its networks")
        rules = [each.removeprefix("firewall rule ") for each in listed(values)[0] if each.startswith("firewall rule ")]
        if rules:
            tools.run("gcloud", "compute", "firewall-rules", "delete", *rules, "--project", values["project"], "--quiet")
        tools.run("gcluster", "destroy", values["deployment"], "--auto-approve", limit_s=3600)


def inside(values):
    """Our objects in an existing cluster."""
    label = f"burnin-cluster={values['cluster']}"
    found = [each["kind"].lower() + " " + each["metadata"]["name"] for kinds in (RELEASED, OURS)
             for each in kubectl("get", kinds, label, "--output", "json")]
    releases = tools.read("helm", "list", "--all-namespaces", "--selector", label, "--output", "json") or []
    return found, releases


def kubectl(verb, kinds, label, *more):
    """Of the kinds that the cluster knows: without Kueue or JobSet there is nothing of theirs."""
    known = {line.split(".")[0] for line in tools.run("kubectl", "api-resources", "--output", "name", told=False).split()}
    plurals = {kind.lower(): plural for kind, plural in objects.PLURALS.items()}
    there = [kind for kind in kinds.split(",") if plurals.get(kind, kind + "s") in known]
    words = ("kubectl", verb, ",".join(there), "--all-namespaces", "--selector", label, *more)
    if not there:
        return []
    return tools.read(*words)["items"] if verb == "get" else tools.run(*words, limit_s=660)


def take_out(values):
    """Ours only: first what uses Kueue and JobSet, then, if we brought them, Kueue and JobSet."""
    clusters = tools.read("gcloud", "container", "clusters", "list", f"--filter=name={values['existing']}", *gke.location(values), "--format=json(name)")
    if not clusters:
        return [], f"there is no cluster {values['existing']}, by gcloud container clusters list"
    gke.get_credentials(values, gke.describe(values))
    label = f"burnin-cluster={values['cluster']}"
    trouble = None
    try:
        for kinds in (RELEASED, OURS):
            kubectl("delete", kinds, label, "--ignore-not-found", "--wait", "--timeout=600s")
        for release in inside(values)[1]:
            tools.run("helm", "uninstall", release["name"], "--namespace", release["namespace"], "--wait", limit_s=660)
    except Failed as failed:
        trouble = failed
        print(trouble)
    found, releases = inside(values)
    left = found + [f"release {release['name']}" for release in releases]
    return left, f"kubectl get {RELEASED},{OURS} and helm list, by label {label}" + (f"; {trouble}" if trouble else "")


def destroy():
    values = parameters.read()
    # What was ordered knows best: substitutions of today may differ.
    if tools.fetch(values["state"], "ordered.json"):
        with open("ordered.json", encoding="utf-8") as file:
            values = {**json.load(file), "state": values["state"]}
    if values["existing"]:
        left, evidence = take_out(values)
    else:
        trouble = None
        try:
            take_down(values)
        except Failed as failed:
            trouble = failed
            print(trouble, file=sys.stderr)
        left, evidence = listed(values)
        evidence += f"; {trouble}" if trouble else ""
    left = left + agent.remove(values)
    evidence += "; subscription: listed by label, by gcloud"
    with open("gone.json.new", "w", encoding="utf-8") as file:
        json.dump({"left": left, "evidence": evidence}, file, indent=1)
    os.replace("gone.json.new", "gone.json")
    print(f"left: {', '.join(left) or 'nothing'}")


if __name__ == "__main__":
    try:
        sys.exit(parameters.play({"destroy": destroy}))
    except Failed as failed:
        # Not knowing what is left is no proof: no gone.json, and Burnin begins anew.
        print(f"{sys.argv[1]}: {failed}", file=sys.stderr)
        sys.exit(1)
