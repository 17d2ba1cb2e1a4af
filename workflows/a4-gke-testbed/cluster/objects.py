"""What is put into the cluster, as objects: a namespace and an account for the test bed, Kueue's queue over the A4 nodes with
their topology, and a DaemonSet that brings the gIB installer to each node and proves that it installs there."""

import parameters

LEVELS = ("cloud.google.com/gce-topology-block", "cloud.google.com/gce-topology-subblock", "cloud.google.com/gce-topology-host",
          "kubernetes.io/hostname")
ACCELERATOR = {"cloud.google.com/gke-accelerator": "nvidia-b200"}
ACCOUNT = "testbed"
GPU = "nvidia.com/gpu"
KUEUE = "kueue.x-k8s.io"
# Kueue's kinds, as it lists them, and the versions of its API that what is asked for here means the same in; the first
# that is served counts. Up to 0.13 it serves topologies as v1alpha1 alone.
PLURALS = {"Topology": "topologies", "ResourceFlavor": "resourceflavors", "ClusterQueue": "clusterqueues", "LocalQueue": "localqueues"}
VERSIONS = ("v1beta2", "v1beta1", "v1alpha1")
INSTALL = "/scripts/container_entry.sh install --install-nccl && test -r /var/lib/gib/scripts/set_nccl_env.sh"
# In the order in which they are made; taken away the other way round.
KINDS = ("Namespace", "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "DaemonSet", "Deployment", "Topology", "ResourceFlavor", "ClusterQueue", "LocalQueue")


def all_of(values, versions):
    """The list, as kubectl takes it; `versions` of Kueue's kinds. What is not in a namespace is named after the cluster, so that
    it meets nobody else's."""
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
    # The second container only keeps the pod there, so that Kubernetes can say that the first one ended well.
    stays = {"name": "installed", "image": values["gib_image"], "command": ["/bin/sh", "-c", "while :; do sleep 3600; done"],
             "resources": {"requests": {"cpu": "10m"}}}
    marks = {"app.kubernetes.io/name": "testbed-gib"}
    daemon = {"selector": {"matchLabels": marks},
              "template": {"metadata": {"labels": {**marks, **parameters.labels(values)}},
                           "spec": {"nodeSelector": ACCELERATOR, "tolerations": [toleration], "initContainers": [installer],
                                    "containers": [stays], "terminationGracePeriodSeconds": 1}}}
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
