"""Prints the variables that deploy.py passes to gcluster, as one JSON object: variables by blueprint file. Runs in a copy of
workflows/a3-mega with the parameters as environment variables, and calls no external program.
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
    """Records its settings and creates nothing."""

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
    deploy.check_prerequisites, deploy.wait_for_lustre = lambda: None, lambda wanted, server: None
    if parameters.main():
        sys.exit(64)
    deploy.base()
    # The image's step reads only Packer's manifest from the deployment folder.
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
