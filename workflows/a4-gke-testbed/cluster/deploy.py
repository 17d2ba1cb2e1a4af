"""Runs one step of deploy.yaml: `deploy.py STEP`. All steps are idempotent."""

import json
import os
import sys
import tarfile

import agent as agents
import gke
import objects
import parameters
import tools
from tools import Failed

CONTROLLERS = (("jobset", "jobset-system", "jobsets.jobset.x-k8s.io"), ("kueue", "kueue-system", "clusterqueues.kueue.x-k8s.io"))
NETWORKS = [f"rdma-{n}" for n in range(8)]


def read_parameters():
    return parameters.read(parameters.DEPLOY)


def write(name, content):
    with open(name, "w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)


def check():
    """Checks the parameters and the required tools."""
    values = read_parameters()
    lacking = tools.missing("gcloud", "kubectl", "helm", *(() if values["existing"] else ("gcluster", "terraform", "dig")))
    if lacking:
        raise parameters.Wrong("not on the PATH: " + ", ".join(lacking))
    if not values["existing"]:
        versions()


def versions():
    """Requires the pinned toolkit and a Terraform that it supports: others fail after minutes, or create a different cluster."""
    with open("pins.json", encoding="utf-8") as file:
        pin = json.load(file)["toolkit"]
    found = tools.run("gcluster", "--version", shown=False)
    if pin["version"] not in found.split():
        raise parameters.Wrong(f"gcluster: expected {pin['version']} (pins.json), found {' '.join(found.split())[:80]!r}")
    terraform = tools.read("terraform", "version", "-json").get("terraform_version", "")
    numbers = [int(part) for part in terraform.split(".")[:2] if part.isdigit()]
    if numbers < [int(part) for part in pin["terraform"].split(".")]:
        raise parameters.Wrong(f"terraform: expected {pin['terraform']} or later, found {terraform!r}")


def make():
    """Creates the cluster with Cluster Toolkit, or uses the existing one. First stores the input of destroy.py."""
    values = read_parameters()
    write("ordered.json", values)
    tools.keep(values["state"], "ordered.json")
    if not values["existing"]:
        own = gke.own_network()
        write("deployment.yaml", {
            "terraform_backend_defaults": {"type": "gcs", "configuration": {"bucket": values["state_bucket"]}},
            "vars": {"project_id": values["project"], "deployment_name": values["deployment"], "region": values["region"],
                     "zone": values["zone"], "static_node_count": values["nodes"], "authorized_networks": authorized_networks(values, own),
                     "reservation": values["reservation"], "version_prefix": values["version_prefix"],
                     "labels": parameters.labels(values)}})
        tools.run("gcluster", "create", "blueprint.yaml", "--deployment-file", "deployment.yaml", "--validation-level", "ERROR",
                  "--overwrite-deployment", "--out", ".")
        with tarfile.open("deployment.tar", "w") as archive:
            archive.add(values["deployment"])
        tools.keep(values["state"], "deployment.tar")
        tools.run("gcluster", "deploy", values["deployment"], "--auto-approve", limit_s=5400)
        # From here on the steps use the DNS name.
        gke.authorize(values, gke.lasting_networks(values))
    found = gke.describe(values)
    if found.get("status") != "RUNNING":
        raise Failed(f"cluster {gke.cluster_name(values)}: expected RUNNING, found {found.get('status')}: {found.get('statusMessage', '')}".rstrip(": "))
    gke.get_credentials(values, found)


def authorized_networks(values, own):
    """Networks that may reach the API by its address during the deployment. Terraform applies the toolkit's own objects by address
    (modules/management/kubectl-apply/providers.tf), so this machine must be among them; all other steps use the DNS name."""
    return [{"cidr_block": network, "display_name": "deployment"} for network in sorted({own, *gke.lasting_networks(values)})]


def controllers():
    """Installs JobSet and Kueue by the digests of their charts. In an existing cluster, an already installed JobSet or Kueue is not changed."""
    values = read_parameters()
    label = f"burnin-cluster={values['cluster']}"
    for name, namespace, crd in CONTROLLERS:
        ours = tools.read("helm", "list", "--all-namespaces", "--selector", label, "--filter", f"^{name}$", "--output", "json")
        installed = tools.run("kubectl", "get", "crd", crd, "--ignore-not-found", "--output", "name", shown=False).strip()
        if values["existing"] and installed and not ours:
            print(f"{name}: exists and was not installed by this deployment; unchanged")
            continue
        tools.run("helm", "upgrade", "--install", name, values[f"{name}_chart"], "--namespace", namespace, "--create-namespace",
                  "--labels", label, "--wait", "--timeout", "10m", limit_s=660)


def apply():
    """Creates queue, topology and namespace. Retries rejections, because Kueue's webhooks start with a delay."""
    values = read_parameters()
    namespace = tools.read("kubectl", "get", "namespace", values["namespace"], "--ignore-not-found", "--output", "json")
    found = objects.all_of(values, {} if values["existing_queue"] else {kind: served(plural) for kind, plural in objects.PLURALS.items()})
    if namespace and namespace["metadata"].get("labels", {}).get("burnin-cluster") != values["cluster"]:
        # A foreign namespace is not deleted with the deployment: rbac.yaml creates it for the agent.
        found["items"] = [item for item in found["items"] if item["kind"] != "Namespace"]
    write("objects.json", found)
    tools.until(300, "objects", lambda: tools.run("kubectl", "apply", "--server-side", "--filename", "objects.json") and None)


def served(plural):
    """The API version to use for one of Kueue's kinds."""
    crd = f"{plural}.{objects.KUEUE}"
    found = tools.read("kubectl", "get", "crd", crd, "--output", "json")["spec"]["versions"]
    available = [each["name"] for each in found if each["served"]]
    version = next((each for each in objects.VERSIONS if each in available), None)
    if version is None:
        raise Failed(f"{crd}: expected {' or '.join(objects.VERSIONS)}, Kueue serves {', '.join(available)}; use another version of Kueue")
    return version


def ready():
    """Waits until controllers, networks, nodes with all GPUs, the gIB installer and the queue are ready; each wait has a timeout."""
    values = read_parameters()
    for _, namespace, _ in CONTROLLERS:
        tools.until(values["ready_s"], namespace, lambda namespace=namespace: deployments(namespace))
    tools.until(values["ready_s"], "networks", networks)
    tools.until(values["ready_s"], "nodes", lambda: nodes(values)[1])
    tools.run("kubectl", "rollout", "status", "daemonset/testbed-gib", "--namespace", values["namespace"],
              f"--timeout={values['ready_s']}s", limit_s=values["ready_s"] + 30)
    tools.until(values["ready_s"], "queue", lambda: queue(values))


def deployments(namespace):
    found = tools.read("kubectl", "get", "deployments", "--namespace", namespace, "--output", "json")["items"]
    waiting = [each["metadata"]["name"] for each in found if not holds(each, "Available")]
    return ", ".join(waiting) + ": not available" if waiting else None if found else "no deployment"


def networks():
    found = {each["metadata"]["name"] for each in tools.read("kubectl", "get", "networks.networking.gke.io", "--output", "json")["items"]}
    lacking = [name for name in NETWORKS if name not in found]
    return f"expected {', '.join(lacking)}" if lacking else None


def holds(thing, condition):
    return any(each["type"] == condition and each["status"] == "True" for each in thing.get("status", {}).get("conditions", []))


def nodes(values):
    """Returns the names of good nodes, and the problem if they are fewer than requested."""
    selector = ",".join(f"{key}={value}" for key, value in objects.ACCELERATOR.items())
    found = tools.read("kubectl", "get", "nodes", "--selector", selector, "--output", "json")["items"]
    good, bad = [], []
    for node in sorted(found, key=lambda node: node["metadata"]["name"]):
        name, gpus = node["metadata"]["name"], node.get("status", {}).get("allocatable", {}).get(objects.GPU, "0")
        lacking = [level for level in objects.LEVELS[:3] if level not in node["metadata"].get("labels", {})]
        wrong = ("not Ready" if not holds(node, "Ready") else "cordoned" if node.get("spec", {}).get("unschedulable") else
                 f"{gpus} of 8 GPUs" if gpus != "8" else f"no label {lacking[0]}" if lacking else None)
        bad.append(f"{name}: {wrong}") if wrong else good.append(name)
    # On an existing cluster some nodes may be in use or broken: the requested number of good ones is sufficient.
    short = len(good) < values["nodes"]
    return good, f"expected {values['nodes']} good nodes, found {len(good)}; {'; '.join(bad[:8])}".rstrip("; ") if short else None


def queue(values):
    ours = ("clusterqueue", values["cluster"])
    theirs = ("localqueue", values["queue"], "--namespace", values["namespace"])
    found = tools.read("kubectl", "get", *(theirs if values["existing_queue"] else ours), "--output", "json")
    if holds(found, "Active"):
        return None
    messages = [each.get("message", "") for each in found.get("status", {}).get("conditions", []) if each["type"] == "Active"]
    return f"not active: {messages[0] if messages else 'no status yet'}"


def agent():
    values = read_parameters()
    if values["agent"]:
        agents.install(values)
    else:
        print("_AGENT is empty: no agent is installed")


def write_results():
    """Writes cluster.json for Burnin and kubernetes.json for the chart's installation."""
    values = read_parameters()
    good, problem = nodes(values)
    if problem:
        raise Failed(f"nodes: {problem}")
    access = "in_cluster" if values["agent"] else gke.access(gke.describe(values))
    write("cluster.json", {"nodes": [{"name": name, "slots": 8} for name in good[: values["nodes"]]],
                           "kubernetes": {"access": access, "namespace": values["namespace"], "queue": values["queue"],
                                          "service_account": objects.ACCOUNT}})
    write("kubernetes.json", {"project": values["project"], "region": values["region"], "cluster": gke.cluster_name(values),
                              "namespace": values["namespace"], "service_account": objects.ACCOUNT, "queue": values["queue"],
                              "topology_levels": list(objects.LEVELS), "accelerator": "nvidia-b200"})


STEPS = {"check": check, "make": make, "controllers": controllers, "apply": apply, "ready": ready, "agent": agent, "tell": write_results}

if __name__ == "__main__":
    try:
        sys.exit(parameters.run_step(STEPS))
    except Failed as failed:
        print(f"{sys.argv[1]}: {failed}", file=sys.stderr)
        sys.exit(1)
