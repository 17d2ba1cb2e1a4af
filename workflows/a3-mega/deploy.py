"""Creates the three deployments, one per step: `deploy.py base`, `deploy.py image`, `deploy.py cluster`.

found.json passes values from one step to the next.
"""

import json
import os
import re
import sys
import time

import parameters
from subprocesses import Failed, active_account, at, call, pins, read_parameters, run_step
from toolkit import Deployment, put, versions


def found(more=None):
    """Returns the content of found.json, after adding `more` to the file."""
    values = {}
    if os.path.exists("found.json"):
        with open("found.json", encoding="utf-8") as file:
            values = json.load(file)
    if more is not None:
        values |= more
        with open("found.json", "w", encoding="utf-8") as file:
            json.dump(values, file, indent=1)
    return values


def blueprint(wanted, part):
    return f"blueprints/{part}{'-lustre' if wanted['storage'] == 'lustre' else ''}.yaml"


def check_prerequisites():
    """Makes all checks that are possible before a resource is created."""
    wanted = read_parameters()
    versions()
    active_account()
    where = [f"--project={wanted['project']}", "--format=json"]
    if wanted["provisioning"] == "reservation":
        described = call(["gcloud", "compute", "reservations", "describe", wanted["reservation"], f"--zone={wanted['zone']}", *where], shown=False)
        reservation = json.loads(described)
        specific = reservation.get("specificReservation") or {}
        machine = (specific.get("instanceProperties") or {}).get("machineType")
        free = int(specific.get("count", 0)) - int(specific.get("inUseCount", 0))
        if not reservation.get("specificReservationRequired"):
            raise ValueError(f"_RESERVATION: {wanted['reservation']} is not a specific reservation, which Slurm-GCP requires: create one with "
                             "--require-specific-reservation")
        if reservation.get("status") != "READY" or machine != "a3-megagpu-8g" or free < wanted["nodes"]:
            raise ValueError(f"_RESERVATION: expected READY, a3-megagpu-8g and {wanted['nodes']} free machines, found {wanted['reservation']}: "
                             f"{reservation.get('status')}, {machine}, {free} free machines")
    if wanted["source_image"]:
        call(["gcloud", "compute", "images", "describe", wanted["source_image"], f"--project={wanted['source_project']}", "--format=value(status)"])


def wait_for_lustre(wanted, server):
    """Waits until Lustre serves mounts and its client installer, at most `ready_minutes` after Terraform has ended."""
    address = server.partition("@")[0]
    deadline = time.monotonic() + 60 * wanted["ready_minutes"]
    pause = 1
    while True:
        try:
            listed = call(["gcloud", "compute", "instances", "list", f"--project={wanted['project']}", "--format=json",
                           f"--filter=networkInterfaces.networkIP={address}"], shown=False)
            machines = json.loads(listed)
            if len(machines) != 1:
                raise ValueError(f"expected one machine with the address, found {len(machines)}")
            probe = f"timeout 5 bash -c '</dev/tcp/{address}/988' && curl -fsS --max-time 10 -o /dev/null http://{address}/client-setup-tool"
            at(wanted, machines[0]["name"], probe)
            return
        except (Failed, ValueError) as failed:
            if time.monotonic() + pause > deadline:
                raise ValueError(f"server_ip: Lustre at {server} is not reachable after {wanted['ready_minutes']} minutes: {failed}") from None
        time.sleep(pause)
        pause = min(2 * pause, 20)


def lustre_machines(count, machine):
    """Settings of a machine group. No public addresses: the subnetwork has private access to Google's services."""
    return {"node_type": machine, "node_cpu": "Intel Cascade Lake", "nic_type": "GVNIC", "node_count": count, "public_ip": False}


def kept_base(wanted, cluster):
    """Base deployment of an earlier run's cluster, read from that cluster's state."""
    state = wanted["state"].replace(f"/{wanted['cluster']}/", f"/{cluster}/")
    deployment = Deployment(wanted | parameters.names(cluster) | {"state": state}, "base")
    if state == wanted["state"] or not deployment.fetch():
        raise ValueError(f"_BASE: expected a cluster whose base was kept, found none in {state}")
    call(["terraform", f"-chdir={deployment.name}/primary", "init", "-input=false"])
    return deployment


def base():
    wanted = read_parameters()
    # The parameters are stored first, because the teardown reads names and locations from them.
    put(wanted["state"], "asked.json")
    check_prerequisites()
    settings = {"system_network": wanted["network"], "system_subnetwork": wanted["subnetwork"], "system_range": wanted["system_range"]}
    if wanted["storage"] == "lustre":
        settings |= {"lustre_name": wanted["lustre_name"], "lustre_mount": wanted["lustre_mount"],
                     "lustre_prefix": f"{wanted['short']}-lustre",
                     "lustre_metadata": lustre_machines(1, wanted["lustre_metadata_machine"]),
                     "lustre_servers": lustre_machines(wanted["lustre_servers"], wanted["lustre_server_machine"]),
                     "lustre_disks": {"disk_bus": "SCSI", "disk_type": "pd-ssd", "disk_size": wanted["lustre_disk_gb"],
                                      "disk_count": 1, "disk_raid": False}}
    else:
        settings |= {"filestore_tier": wanted["filestore_tier"], "filestore_gb": wanted["filestore_gb"],
                     "filestore_name": f"{wanted['short']}-home"}
    if wanted["base"]:
        deployment = kept_base(wanted, wanted["base"])
    else:
        deployment = Deployment(wanted, "base")
        deployment.create(blueprint(wanted, "base"), settings)
        deployment.deploy()
    outputs = deployment.outputs("primary")
    storage = outputs.get("network_storage_" + ("lustrefs" if wanted["storage"] == "lustre" else "homefs")) or {}
    server = str(storage.get("server_ip") or "")
    if wanted["storage"] == "lustre" and parameters.nid(server) is None:
        raise ValueError(f"server_ip: expected a Lustre network identifier ADDRESS@tcp from the base deployment, found {server[:80]!r}")
    if wanted["storage"] == "filestore" and not re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,3}){3}", server):
        raise ValueError(f"server_ip: expected an IPv4 address from the base deployment, found {server[:80]!r}")
    for name, expected in (("network_name_sysnet", wanted["network"]), ("subnetwork_name_sysnet", wanted["subnetwork"])):
        if outputs.get(name) != expected:
            raise ValueError(f"{name}: expected {expected} from the base deployment, found {str(outputs.get(name))[:80]!r}")
    if wanted["storage"] == "lustre":
        wait_for_lustre(wanted, server)
    found({"server_ip": server, "remote_mount": storage.get("remote_mount", "")})


def image():
    wanted, pin = read_parameters(), pins()
    if wanted["image_of"]:
        call(["gcloud", "compute", "images", "describe", wanted["image"], f"--project={wanted['project']}", "--format=value(status)"])
        return found({"image": wanted["image"]})
    settings = {"system_network": wanted["network"], "system_subnetwork": wanted["subnetwork"], "image_name": wanted["image"],
                "image_family": wanted["short"], "slurm_cluster_name": wanted["short"], "disk_gb": wanted["disk_gb"],
                "source_image": wanted["source_image"], "source_image_project": [wanted["source_project"]],
                "slurm_gcp_commit": pin["slurm_gcp"]["commit"], "gvnic_version": pin["gvnic"]["version"],
                "gvnic_sha256": wanted["driver_sha256"], "toolkit_apt": wanted["toolkit_apt"], "tcpxo_apt": wanted["tcpxo_apt"]}
    if wanted["storage"] == "filestore":
        settings["headers_from"] = wanted["headers_from"]
    else:
        known = found()
        settings |= {"server_ip": known["server_ip"], "remote_mount": known["remote_mount"], "lustre_mount": wanted["lustre_mount"]}
    deployment = Deployment(wanted, "image")
    deployment.create(blueprint(wanted, "image"), settings)
    deployment.deploy()
    with open(f"{deployment.name}/slurm-build/slurm-image/packer-manifest.json", encoding="utf-8") as file:
        manifest = json.load(file)
    last = next((build for build in manifest["builds"] if build["packer_run_uuid"] == manifest["last_run_uuid"]), {})
    name = str(last.get("artifact_id", "")).rpartition(":")[2]
    if name != wanted["image"]:
        raise ValueError(f"packer-manifest.json: expected the image {wanted['image']}, found {name[:80]!r}")
    found({"image": name})


def scheduling(wanted):
    """Scheduling of nodes with a maximum lifetime, even if they are never released. Replaces Slurm-GCP's own setting."""
    remaining = wanted["expires"] - int(time.time())
    if remaining < 1800:
        raise ValueError(f"_EXPIRES: expected at least half an hour from now, found {remaining} s")
    rules = {"onHostMaintenance": "TERMINATE", "automaticRestart": False, "instanceTerminationAction": "DELETE",
             "maxRunDuration": {"seconds": remaining}, "provisioningModel": "SPOT" if wanted["provisioning"] == "spot" else "STANDARD"}
    if wanted["maintenance"]:
        rules["maintenanceInterval"] = wanted["maintenance"]
    return rules


def cluster():
    wanted, known, pin = read_parameters(), found(), pins()
    settings = {"system_network": wanted["network"], "system_subnetwork": wanted["subnetwork"], "slurm_cluster_name": wanted["short"],
                "instance_image": {"name": known["image"], "project": wanted["project"]}, "disk_gb": wanted["disk_gb"],
                "partition_name": wanted["partition"], "node_count": wanted["nodes"], "gpu_range": wanted["gpu_range"],
                "gpu_network_prefix": f"{wanted['short']}-gpu",
                "reservation_name": wanted["reservation"], "spot": wanted["provisioning"] == "spot", "maintenance": wanted["maintenance"],
                "instance_properties": {"scheduling": scheduling(wanted)}, "monitoring": wanted["monitoring"],
                "prolog_arguments": " ".join([pin["prologs"]["commit"], pin["prologs"]["rxdm"], pin["prologs"]["sudo_oslogin"], wanted["partition"]]),
                # Empty, not null: gcluster rejects a null variable (v1.39.0, pkg/config/validate.go, validateVars), and the modules'
                # `coalesce` replaces an empty one with the project's default account.
                "machine_account": wanted["service_account"], "server_ip": known["server_ip"], "remote_mount": known["remote_mount"]}
    if wanted["storage"] == "lustre":
        more = []
        if wanted["gcs_bucket"]:
            more = [{"server_ip": "", "remote_mount": wanted["gcs_bucket"], "local_mount": wanted["gcs_mount"], "fs_type": "gcsfuse",
                     "mount_options": "defaults,_netdev,implicit_dirs,allow_other"}]
        settings |= {"lustre_mount": wanted["lustre_mount"], "more_storage": more}
    deployment = Deployment(wanted, "cluster")
    deployment.create(blueprint(wanted, "cluster"), settings)
    deployment.deploy()


if __name__ == "__main__":
    run_step({"base": base, "image": image, "cluster": cluster}[sys.argv[1]])
