"""Deployments of Google's Cluster Toolkit: their settings, folders and destruction.

A deployment's folder is sufficient to destroy it, so it is stored in `_STATE` before the deployment and again after it.
Objects there are written once: each copy has its own number.
"""

import glob
import io
import json
import os
import re
import shutil
import tarfile

from subprocesses import Failed, call, pins

LOCK = re.compile(r"^\W*ID:\s+([0-9A-Za-z-]+)\s*$", re.MULTILINE)


class Deployment:
    """One deployment; `part` is `base`, `image` or `cluster`."""

    def __init__(self, parameters, part):
        self.parameters, self.part = parameters, part
        self.name = f"{parameters['short']}-{part}"

    def create(self, blueprint, settings):
        """Writes the settings as a deployment file (JSON is YAML) and creates the folder; creates nothing in the cloud."""
        parameters = self.parameters
        labels = {"burnin-cluster": parameters["cluster"], "burnin-run": parameters["run"], "burnin-expires": str(parameters["expires"])}
        variables = {"project_id": parameters["project"], "deployment_name": self.name, "region": parameters["region"],
                     "zone": parameters["zone"], "labels": labels, **settings}
        backend = {"type": "gcs", "configuration": {"bucket": parameters["bucket"]}}
        with open(f"{self.part}.deployment.yaml", "w", encoding="utf-8") as file:
            json.dump({"vars": variables, "terraform_backend_defaults": backend}, file, indent=1)
        call(["gcluster", "create", blueprint, "--deployment-file", f"{self.part}.deployment.yaml", "--out", ".",
              "--validation-level", "ERROR", *(["--overwrite-deployment"] if os.path.exists(self.name) else [])])
        self.keep()

    def deploy(self):
        os.environ["TF_IN_AUTOMATION"] = "TRUE"
        try:
            call(["gcluster", "deploy", self.name, "--auto-approve"])
        finally:
            self.keep()

    def destroy(self):
        """Destroys the deployment. Releases a lock on the state: no other deployment runs now, so the lock's owner has stopped."""
        os.environ["TF_IN_AUTOMATION"] = "TRUE"
        words = ["gcluster", "destroy", self.name, "--auto-approve"]
        for retry in (True, False):
            try:
                return call(words)
            except Failed as failed:
                lock = LOCK.search(failed.output)
                if not retry or "Error acquiring the state lock" not in failed.output or not lock:
                    raise
                for group in self.groups():
                    try:
                        call(["terraform", f"-chdir={self.name}/{group}", "init", "-input=false"])
                        call(["terraform", f"-chdir={self.name}/{group}", "force-unlock", "-force", lock[1]])
                    except Failed as other:
                        print(f"{group}: the lock belongs to another group: {other}", flush=True)

    def groups(self):
        """The Terraform groups of the folder."""
        folders = sorted(entry.name for entry in os.scandir(self.name) if entry.is_dir() and not entry.name.startswith("."))
        return [folder for folder in folders if os.path.exists(f"{self.name}/{folder}/main.tf")]

    def outputs(self, group):
        """Terraform's outputs of a group, by name."""
        text = call(["terraform", f"-chdir={self.name}/{group}", "output", "-json"], shown=False)
        return {name: output["value"] for name, output in json.loads(text).items()}

    def keep(self):
        """Stores the folder in its current state, without the files that `terraform init` downloads."""
        kept = kept_of(self.parameters, self.part)
        number = max(kept, default=0) + 1
        file = f"{self.part}-{number}.tar.gz"
        skip = lambda entry: None if os.path.basename(entry.name) == ".terraform" else entry
        with tarfile.open(file, "w:gz") as archive:
            archive.add(self.name, filter=skip)
        put(self.parameters["state"], file)

    def fetch(self):
        """Restores the newest stored folder. Returns False if none is stored: nothing was deployed."""
        kept = kept_of(self.parameters, self.part)
        if not kept:
            return False
        content = get(kept[max(kept)], f"{self.part}.tar.gz")
        shutil.rmtree(self.name, ignore_errors=True)
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            archive.extractall(".")  # trusted, because keep() wrote it
        return True


def put(state, file):
    """Stores a file of the workspace in `_STATE`; an object is never overwritten."""
    target = f"{state}/{file}"
    if state.startswith("gs://"):
        call(["gcloud", "storage", "cp", "--if-generation-match=0", file, target])
    else:
        os.makedirs(state, exist_ok=True)
        shutil.copyfile(file, target + ".part")
        os.rename(target + ".part", target)
    print(f"{file}: stored as {target}", flush=True)


def get(place, file):
    """Reads a stored file; `file` is the name of its local copy."""
    if place.startswith("gs://"):
        call(["gcloud", "storage", "cp", place, file])
        place = file
    with open(place, "rb") as handle:
        return handle.read()


def listed(state, pattern):
    """Paths of the stored files that match a pattern."""
    if not state.startswith("gs://"):
        return [path for path in glob.glob(f"{glob.escape(state)}/{pattern}")]
    try:
        return call(["gcloud", "storage", "ls", f"{state}/{pattern}"], shown=False).split()
    except Failed as failed:
        if "matched no objects" not in failed.output:
            raise
        return []


def kept_of(parameters, part):
    """Stored copies of a part: path by number."""
    found = ((re.search(rf"/{part}-([0-9]+)\.tar\.gz$", place), place) for place in listed(parameters["state"], f"{part}-*.tar.gz"))
    return {int(match[1]): place for match, place in found if match}


def versions():
    """Requires the pinned toolkit: another version expands the same blueprint differently."""
    pin = pins()["toolkit"]
    version = call(["gcluster", "--version"])
    if pin["version"] not in version or pin["commit"][:7] not in version:
        raise ValueError(f"gcluster: expected {pin['version']} of commit {pin['commit']}, found {version.strip()!r}")
    call(["terraform", "version"])
    call(["packer", "version"])
