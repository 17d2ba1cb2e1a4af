"""Stand-in for gcluster, terraform, gcloud, kubectl and helm: keeps their state in one file and records the calls. The state also
has the number of injected faults by name."""

import json
import os
import pathlib
import sys

name, args = sys.argv[1], sys.argv[2:]
file = pathlib.Path(os.environ["CLOUD"])
world = json.loads(file.read_text())
world["calls"].append([name, *args])


def fault(which):
    if world["faults"].get(which, 0) > 0:
        world["faults"][which] -= 1
        return True
    return False


def end(output="", status=0):
    file.write_text(json.dumps(world))
    print(output if isinstance(output, str) else json.dumps(output))
    sys.exit(status)


def option(word):
    return args[args.index(word) + 1]


def terraform():
    end({"terraform_version": world.get("terraform", "1.12.2")})


def gcluster():
    if args[0] == "--version":
        end(f"gcluster version {world.get('toolkit', 'v1.82.0')}\nBuilt from 'detached HEAD' branch.")
    if args[0] == "create":
        settings = json.loads(pathlib.Path(option("--deployment-file")).read_text())
        world["settings"] = settings
        pathlib.Path(settings["vars"]["deployment_name"]).mkdir()
        end()
    if not pathlib.Path(args[1]).is_dir():
        end(f"{args[1]}: no such deployment", 1)
    # Terraform connects to the cluster's API by IP address, so the address of this machine must be authorized.
    authorized = [each["cidr_block"] for each in world["settings"]["vars"]["authorized_networks"]] if args[0] == "deploy" else world.get("authorized", [])
    if (args[0] == "deploy" or world["things"].get("clusters")) and world.get("own", "198.51.100.4") + "/32" not in authorized:
        end('Error: Get "https://203.0.113.7/api/v1/namespaces": dial tcp 203.0.113.7:443: i/o timeout', 1)
    if args[0] == "deploy":
        world["authorized"] = authorized
        world["things"] = {"clusters": [args[1]], "networks": [f"{args[1]}-net-0"], "firewall-rules": ["gke-x"]}
        for which, message in (("quota", "Error: Quota 'GPUS_PER_GPU_FAMILY' exceeded. Limit: 8.0 in region us-central1."),
                            ("stockout", "Error: ZONE_RESOURCE_POOL_EXHAUSTED: the zone does not have a4-highgpu-8g")):
            if fault(which):
                world["things"].pop("clusters")
                end(message, 1)
        end("Apply complete!")
    if fault("destroy"):
        end("Error waiting for Deleting Network: The network resource is already being used by 'firewalls/gke-x'", 1)
    world["things"] = {}
    end()


def gcloud():
    if args[:3] == ["container", "clusters", "describe"]:
        dns = {"endpoint": "gke-1a2b-1.us-central1.gke.goog", "allowExternalTraffic": world.get("dns", True)}
        end({"name": args[3], "status": "ERROR" if fault("cluster") else "RUNNING", "endpoint": "203.0.113.7",
             "masterAuth": {"clusterCaCertificate": "QUJD"}, "controlPlaneEndpointsConfig": {"dnsEndpointConfig": dns}})
    if args[:3] == ["container", "clusters", "update"]:
        networks = option("--master-authorized-networks").split(",") if "--master-authorized-networks" in args else []
        world["authorized"] = networks
        end()
    if args[:3] == ["container", "clusters", "get-credentials"]:
        if "kubeconfig" in world:
            pathlib.Path(os.environ["KUBECONFIG"]).write_text(world["kubeconfig"])
        end("kubeconfig entry generated")
    if args[:2] == ["projects", "describe"]:
        end({"projectId": args[2], "projectNumber": "123456789012"})
    if args[:2] == ["pubsub", "subscriptions"] and args[2] in ("create", "delete", "list"):
        subscriptions = world.setdefault("subscriptions", [])
        if args[2] == "create":
            subscriptions.append(args[3])
        elif args[2] == "delete":
            if fault("subscription"):
                end("ERROR: (gcloud.pubsub.subscriptions.delete) PERMISSION_DENIED: User not authorized", 1)
            subscriptions.remove(args[3])
            # The subscription's grants are removed with it.
            world["bindings"] = [each for each in world.get("bindings", []) if each[:3] != ["pubsub", "subscriptions", args[3]]]
        else:
            end([{"name": f"projects/p/subscriptions/{each}"} for each in subscriptions])
        end()
    if args[2].endswith("-iam-policy-binding"):
        bindings, binding = world.setdefault("bindings", []), args[:2] + args[3:]
        if args[2].startswith("add"):
            bindings.append(binding)
        elif binding in bindings:
            bindings.remove(binding)
        else:
            end("ERROR: Policy binding with the specified principal, role, and condition not found!", 1)
        end()
    if "delete" in args:
        world["things"]["firewall-rules"] = []
        end()
    kind = args[args.index("list") - 1]
    if fault(f"list {kind}"):
        end("ERROR: (gcloud) PERMISSION_DENIED: Required 'compute.networks.list' permission", 1)
    names = world["things"].get(kind, [])
    if any(word.startswith("--filter=name=") for word in args):
        names = [world["existing"]] if world.get("existing") else names
    end([{"name": each} for each in names])


def conditions(kind, good):
    return {"conditions": [{"type": kind, "status": "True" if good else "False", "message": "wait"}]}


def node(n):
    labels = {f"cloud.google.com/gce-topology-{level}": "x" for level in ("block", "subblock", "host")}
    return {"metadata": {"name": f"gke-a4-{n}", "labels": labels}, "spec": {},
            "status": {"allocatable": {"nvidia.com/gpu": "7" if n == world.get("bad_gpu") else "8"},
                       **conditions("Ready", n != world.get("not_ready"))}}


def kubectl():
    if args[0] == "apply":
        if fault("webhook"):
            end('Internal error occurred: failed calling webhook "mclusterqueue.kb.io"', 1)
        applied = json.loads(pathlib.Path(option("--filename")).read_text())["items"]
        replaced = {(each["kind"], each["metadata"]["name"]) for each in applied}
        world["objects"] = [each for each in world["objects"] if (each["kind"], each["metadata"]["name"]) not in replaced] + applied
        end("serverside-applied")
    if args[0] == "rollout":
        end("successfully rolled out")
    if args[0] == "api-resources":
        end("\n".join(["secrets", "configmaps", "services", "namespaces", "serviceaccounts", "daemonsets.apps", "deployments.apps",
                       *(f"{each}.rbac.authorization.k8s.io" for each in ("roles", "rolebindings", "clusterroles", "clusterrolebindings")), *world["crds"]]))
    if args[0] == "delete":
        if fault("delete"):
            end("error: timed out waiting for the condition on clusterqueues/c-1", 1)
        kinds = args[1].split(",")
        world["objects"] = [each for each in world["objects"] if each["kind"].lower() not in kinds]
        end()
    kind = args[1]
    if kind == "namespace":
        end(world.get("namespace", ""))
    if kind == "crd" and option("--output") == "json":
        served = world.get("served", {}).get(args[2].split(".")[0], ["v1beta1", "v1beta2"])
        end({"spec": {"versions": [{"name": each, "served": True} for each in served]}})
    if kind == "crd":
        end(f"customresourcedefinition/{args[2]}" if args[2] in world["crds"] else "")
    if kind == "deployments":
        end({"items": [{"metadata": {"name": "controller"}, "status": conditions("Available", not fault("controller"))}]})
    if kind == "networks.networking.gke.io":
        end({"items": [{"metadata": {"name": each}} for each in ["default", *(f"rdma-{n}" for n in range(world.get("networks", 8)))]]})
    if kind == "nodes":
        end({"items": [node(n) for n in range(world.get("nodes", 2))]})
    if kind in ("clusterqueue", "localqueue"):
        end({"status": conditions("Active", not fault("queue"))})
    kinds = kind.split(",")
    end({"items": [each for each in world["objects"] if each["kind"].lower() in kinds]})


def helm():
    if args[0] == "list":
        wanted = option("--filter").strip("^$") if "--filter" in args else None
        end([each for each in world["releases"] if wanted in (None, each["name"])])
    if args[0] == "uninstall":
        world["releases"] = [each for each in world["releases"] if each["name"] != args[1]]
        end()
    world["releases"].append({"name": args[2], "namespace": option("--namespace")})
    world["crds"] += {"jobset": ["jobsets.jobset.x-k8s.io"], "kueue": [
        f"{each}.kueue.x-k8s.io" for each in ("clusterqueues", "localqueues", "resourceflavors", "topologies")]}[args[2]]
    end()


def dig():
    end(f'"{world.get("own", "198.51.100.4")}"')


{"dig": dig, "terraform": terraform, "gcluster": gcluster, "gcloud": gcloud, "kubectl": kubectl, "helm": helm}[name]()
