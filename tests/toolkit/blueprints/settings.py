"""Prints what deploy.py passes to gcluster: settings.py, with the parameters as environment variables, in a copy of workflows/a3-mega.

One JSON object: a blueprint's file to its variables. Programs of others are not called.
"""

import json
import sys

sys.path.insert(0, ".")
import deploy  # noqa: E402
import parameters  # noqa: E402
import subprocesses  # noqa: E402
import toolkit  # noqa: E402

created = {}


class Recorded(toolkit.Deployment):
    """A deployment that exists on paper only."""

    def create(self, blueprint, settings):
        super().create(blueprint, settings)
        with open(f"{self.part}.deployment.yaml", encoding="utf-8") as file:
            created[blueprint] = json.load(file)["vars"]

    def deploy(self):
        pass

    def keep(self):
        pass

    def outputs(self, group):
        wanted = subprocesses.read_parameters()
        lustre = wanted["storage"] == "lustre"
        storage = {"server_ip": "172.16.0.9@tcp" if lustre else "172.16.0.9", "remote_mount": "/exacloud" if lustre else "/nfsshare"}
        return {"network_name_sysnet": wanted["network"], "subnetwork_name_sysnet": wanted["subnetwork"],
                "network_storage_lustrefs" if lustre else "network_storage_homefs": storage}


def main():
    for module in (deploy, toolkit):
        module.call = lambda words, **_: "{}"
    deploy.Deployment, deploy.put = Recorded, lambda state, file: None
    deploy.prepared, deploy.serves = lambda: None, lambda wanted, server: None
    if parameters.main():
        sys.exit(64)
    deploy.base()
    # Packer's manifest is all that the image's step reads of a folder.
    wanted = subprocesses.read_parameters()
    folder = f"{wanted['short']}-image/slurm-build/slurm-image"
    deploy.os.makedirs(folder)
    with open(f"{folder}/packer-manifest.json", "w", encoding="utf-8") as file:
        json.dump({"last_run_uuid": "1", "builds": [{"packer_run_uuid": "1", "artifact_id": f"p:{wanted['image']}"}]}, file)
    deploy.image()
    deploy.cluster()
    print("SETTINGS " + json.dumps(created))


if __name__ == "__main__":
    main()
