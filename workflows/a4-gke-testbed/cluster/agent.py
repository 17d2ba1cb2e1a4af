"""Installs Burnin's agent in the cluster. The agent pulls this cluster's commands from its own subscription, so it needs no inbound
connection. Without `_AGENT` no agent is installed.

Its identity is a Kubernetes service account, as Workload Identity Federation names it (cloud.google.com/iam/docs/principal-identifiers):
principal://iam.googleapis.com/projects/NUMBER/locations/global/workloadIdentityPools/PROJECT.svc.id.goog/subject/ns/NAMESPACE/sa/NAME

The subscription is in the cluster's project, where the steps have the required rights: in Burnin's project they could change the
subscriptions of the services. `agent_members` of infra/ grants the agent's rights in Burnin's project.
"""

import json

import parameters
import tools

NAME = "burnin-agent"
PORT = 8089
RBAC = "rbac.authorization.k8s.io"
# The rules equal those of ../rbac.yaml, which a test checks.
RULES = (
    ("jobset.x-k8s.io", "jobsets", ("create", "delete", "get", "list")),
    ("batch", "jobs", ("list",)),
    ("", "pods", ("get", "list", "watch")),
    ("", "pods/log", ("get",)),
    ("kueue.x-k8s.io", "workloads", ("list",)),
    ("kueue.x-k8s.io", "localqueues", ("get",)),
    ("", "events", ("list",)),
    ("", "secrets", ("create", "get")),
    ("", "services", ("get",)),
    ("", "persistentvolumeclaims", ("list",)),
)
NODE_RULES = (("", "nodes", ("list",)),)


def member(values, number):
    """The agent's identity. `number`: number of the cluster's project."""
    return (f"principal://iam.googleapis.com/projects/{number}/locations/global/workloadIdentityPools/{values['project']}.svc.id.goog"
            f"/subject/ns/{values['namespace']}/sa/{NAME}")


def subscriptions(recorded):
    """Names of the subscriptions with this cluster's label."""
    found = tools.read("gcloud", "pubsub", "subscriptions", "list", f"--project={recorded['project']}", "--format=json",
                       f"--filter=labels.burnin-cluster={recorded['cluster']}")
    return [each["name"].rpartition("/")[2] for each in found or []]


def install(values):
    project = tools.read("gcloud", "projects", "describe", values["project"], "--format=json")
    recorded = {"project": values["project"], "cluster": values["cluster"], "subscription": f"{values['deployment']}-agent"}
    home = values["home"] or values["project"]
    with open("agent.json", "w", encoding="utf-8") as file:
        json.dump(recorded, file, indent=1)
    # The record is stored before any resource is created, so that the teardown can remove all of them.
    tools.keep(values["state"], "agent.json")
    if recorded["subscription"] not in subscriptions(recorded):
        labels = ",".join(f"{name}={value}" for name, value in parameters.labels(values).items())
        tools.run("gcloud", "pubsub", "subscriptions", "create", recorded["subscription"], f"--project={recorded['project']}",
                  f"--topic=projects/{home}/topics/{values['topics']}agent", f"--message-filter=attributes.cluster = \"{values['cluster']}\"", "--ack-deadline=600", "--message-retention-duration=1d",
                  "--expiration-period=31d", f"--labels={labels}")
    tools.run("gcloud", "pubsub", "subscriptions", "add-iam-policy-binding", recorded["subscription"], f"--project={recorded['project']}",
              f"--member={member(values, project['projectNumber'])}", "--role=roles/pubsub.subscriber", shown=False)
    with open("agent-objects.json", "w", encoding="utf-8") as file:
        json.dump(objects(values, recorded), file, indent=1)
    tools.run("kubectl", "apply", "--server-side", "--filename", "agent-objects.json")
    # A new permission takes up to seven minutes to be effective; until then the agent restarts.
    tools.run("kubectl", "rollout", "status", f"deployment/{NAME}", "--namespace", values["namespace"],
              f"--timeout={values['ready_s']}s", limit_s=values["ready_s"] + 30)


def objects(values, recorded):
    labels, namespace = parameters.labels(values), values["namespace"]
    # Objects without a namespace are named after the cluster, so that two deployments do not share them.
    all_nodes = f"{values['cluster']}-agent"

    def made(version, kind, name, **more):
        place = {} if kind.startswith("Cluster") else {"namespace": namespace}
        return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "labels": labels, **place}, **more}

    def rules(permissions):
        return [{"apiGroups": [group], "resources": [resource], "verbs": list(verbs)} for group, resource, verbs in permissions]

    def binding(kind, role, name):
        return made(f"{RBAC}/v1", kind, name, roleRef={"apiGroup": RBAC, "kind": role, "name": name},
                    subjects=[{"kind": "ServiceAccount", "name": NAME, "namespace": namespace}])

    environment = {"PORT": str(PORT), "BURNIN_AUTH": "platform", "BURNIN_CLUSTER": values["cluster"],
                   "BURNIN_PULL": f"projects/{recorded['project']}/subscriptions/{recorded['subscription']}",
                   "BURNIN_PROJECT": values["home"] or values["project"], "BURNIN_TOPICS": values["topics"],
                   "BURNIN_ARTEFACTS": f"gs://{values['artefacts']}"}
    container = {
        "name": "agent", "image": values["agent"], "env": [{"name": name, "value": value} for name, value in environment.items()],
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }
    marks = {"app.kubernetes.io/name": NAME}
    pod = {"serviceAccountName": NAME, "containers": [container],
           "volumes": [{"name": "tmp", "emptyDir": {}}],
           "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}}}
    # Outside Cloud Run the program listens on the loopback device only, so a kubelet cannot probe it: an agent that runs for
    # minReadySeconds is treated as ready.
    deployment = {"replicas": 1, "minReadySeconds": 30, "strategy": {"type": "Recreate"}, "selector": {"matchLabels": marks},
                  "template": {"metadata": {"labels": {**marks, **labels}}, "spec": pod}}
    return {"apiVersion": "v1", "kind": "List", "items": [
        made("v1", "ServiceAccount", NAME),
        made(f"{RBAC}/v1", "Role", NAME, rules=rules(RULES)),
        binding("RoleBinding", "Role", NAME),
        made(f"{RBAC}/v1", "ClusterRole", all_nodes, rules=rules(NODE_RULES)),
        binding("ClusterRoleBinding", "ClusterRole", all_nodes),
        made("apps/v1", "Deployment", NAME, spec=deployment),
    ]}


def remove(values):
    """Removes the agent's subscription, and its grant with it. Returns the remaining subscriptions."""
    if not tools.fetch(values["state"], "agent.json"):
        return []
    with open("agent.json", encoding="utf-8") as file:
        recorded = json.load(file)
    for name in subscriptions(recorded):
        try:
            tools.run("gcloud", "pubsub", "subscriptions", "delete", name, f"--project={recorded['project']}", "--quiet")
        except tools.Failed as failed:
            print(failed)
    return [f"subscription {name}" for name in subscriptions(recorded)]
