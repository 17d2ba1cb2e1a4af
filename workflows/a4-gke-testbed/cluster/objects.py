"""Objects that the deployment creates in the cluster: a namespace and an account for the test bed, Kueue's queue over the A4 nodes
with their topology, and a DaemonSet that runs the gIB installer on each node, to check that the installation works."""

import parameters

LEVELS = ("cloud.google.com/gce-topology-block", "cloud.google.com/gce-topology-subblock", "cloud.google.com/gce-topology-host",
          "kubernetes.io/hostname")
ACCELERATOR = {"cloud.google.com/gke-accelerator": "nvidia-b200"}
ACCOUNT = "testbed"
GPU = "nvidia.com/gpu"
KUEUE = "kueue.x-k8s.io"
# Kueue's kinds with their plurals, and the API versions with equal fields for the objects created here; the first
# served version is used. Up to 0.13 Kueue serves topologies as v1alpha1 only.
PLURALS = {"Topology": "topologies", "ResourceFlavor": "resourceflavors", "ClusterQueue": "clusterqueues", "LocalQueue": "localqueues"}
VERSIONS = ("v1beta2", "v1beta1", "v1alpha1")
INSTALL = "/scripts/container_entry.sh install --install-nccl && test -r /var/lib/gib/scripts/set_nccl_env.sh"
# Created in this order, deleted in the reverse order.
KINDS = ("Namespace", "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "DaemonSet", "Deployment", "Topology", "ResourceFlavor", "ClusterQueue", "LocalQueue")


def all_of(values, versions):
    """The objects as a list for kubectl; `versions`: API version by Kueue kind. Objects without a namespace are named after the
    cluster, so that two deployments do not share them."""
    name, namespace = values["cluster"], values["namespace"]

    def kueue(kind, name, spec):
        return made(f"{KUEUE}/{versions[kind]}", kind, name, spec)

    def made(version, kind, name, spec=None, **more):
        metadata = {"name": name, "labels": parameters.labels(values)}
        if kind in ("ServiceAccount", "DaemonSet", "LocalQueue"):
            metadata["namespace"] = namespace
        return {"apiVersion": version, "kind": kind, "metadata": metadata, **({"spec": spec} if spec else {}), **more}

    toleration = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}
    installer = {"name": "installer", "image": values["gib_image"], "command": ["/bin/sh", "-ec", INSTALL],
                 "resources": {"requests": {"cpu": "100m"}}}
    # This container keeps the pod running, so that the rollout status reports the init container's success.
    keep_running = {"name": "installed", "image": values["gib_image"], "command": ["/bin/sh", "-c", "while :; do sleep 3600; done"],
                    "resources": {"requests": {"cpu": "10m"}}}
    marks = {"app.kubernetes.io/name": "testbed-gib"}
    daemon = {"selector": {"matchLabels": marks},
              "template": {"metadata": {"labels": {**marks, **parameters.labels(values)}},
                           "spec": {"nodeSelector": ACCELERATOR, "tolerations": [toleration], "initContainers": [installer],
                                    "containers": [keep_running], "terminationGracePeriodSeconds": 1}}}
    quota = [{"name": name, "resources": [{"name": GPU, "nominalQuota": values["nodes"] * 8}]}]
    items = [
        made("v1", "Namespace", namespace),
        made("v1", "ServiceAccount", ACCOUNT),
        made("apps/v1", "DaemonSet", "testbed-gib", daemon),
    ]
    if values["existing_queue"]:
        return {"apiVersion": "v1", "kind": "List", "items": items}
    items += [
        kueue("Topology", name, {"levels": [{"nodeLabel": level} for level in LEVELS]}),
        kueue("ResourceFlavor", name, {"nodeLabels": ACCELERATOR, "topologyName": name, "tolerations": [toleration]}),
        kueue("ClusterQueue", name, {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "resourceGroups": [{"coveredResources": [GPU], "flavors": quota}]}),
        kueue("LocalQueue", values["queue"], {"clusterQueue": name}),
    ]
    return {"apiVersion": "v1", "kind": "List", "items": items}
