"""Deployments of Google's Cluster Toolkit: their settings, their folders, and their way back.

A deployment's folder is all that its destruction needs, so it is kept in `_STATE` before anything is made and again when it
is. Objects there are created once: each copy has a number of its own.
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
    """One of the three: `base`, `image`, `cluster`."""

    def __init__(self, parameters, part):
        self.parameters, self.part = parameters, part
        self.name = f"{parameters['short']}-{part}"

    def create(self, blueprint, settings):
        """Writes the settings as a deployment file (JSON is YAML) and makes the folder; nothing is made in the cloud."""
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
        """Takes down what the folder knows. A lock is of a deployment that was stopped: nobody else is at work then."""
        os.environ["TF_IN_AUTOMATION"] = "TRUE"
        words = ["gcluster", "destroy", self.name, "--auto-approve"]
        for again in (True, False):
            try:
                return call(words)
            except Failed as failed:
                lock = LOCK.search(failed.said)
                if not again or "Error acquiring the state lock" not in failed.said or not lock:
                    raise
                for group in self.groups():
                    try:
                        call(["terraform", f"-chdir={self.name}/{group}", "init", "-input=false"])
                        call(["terraform", f"-chdir={self.name}/{group}", "force-unlock", "-force", lock[1]])
                    except Failed as other:
                        print(f"{group}: not its lock: {other}", flush=True)

    def groups(self):
        """The Terraform groups of the folder."""
        folders = sorted(entry.name for entry in os.scandir(self.name) if entry.is_dir() and not entry.name.startswith("."))
        return [folder for folder in folders if os.path.exists(f"{self.name}/{folder}/main.tf")]

    def outputs(self, group):
        """Terraform's outputs of a group, each by its name."""
        text = call(["terraform", f"-chdir={self.name}/{group}", "output", "-json"], shown=False)
        return {name: output["value"] for name, output in json.loads(text).items()}

    def keep(self):
        """Keeps the folder as it is now, without what `terraform init` brings anew."""
        kept = kept_of(self.parameters, self.part)
        number = max(kept, default=0) + 1
        file = f"{self.part}-{number}.tar.gz"
        skip = lambda entry: None if os.path.basename(entry.name) == ".terraform" else entry
        with tarfile.open(file, "w:gz") as archive:
            archive.add(self.name, filter=skip)
        put(self.parameters["state"], file)

    def fetch(self):
        """Brings the newest folder that was kept; false when none was, because it never began."""
        kept = kept_of(self.parameters, self.part)
        if not kept:
            return False
        content = get(kept[max(kept)], f"{self.part}.tar.gz")
        shutil.rmtree(self.name, ignore_errors=True)
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            archive.extractall(".")  # our own: see keep
        return True


def put(state, file):
    """Keeps a file of the workspace in `_STATE`, once under a name."""
    target = f"{state}/{file}"
    if state.startswith("gs://"):
        call(["gcloud", "storage", "cp", "--if-generation-match=0", file, target])
    else:
        os.makedirs(state, exist_ok=True)
        shutil.copyfile(file, target + ".part")
        os.rename(target + ".part", target)
    print(f"{file}: kept as {target}", flush=True)


def get(place, file):
    """The content of what is kept at a place; `file` is what it is called here."""
    if place.startswith("gs://"):
        call(["gcloud", "storage", "cp", place, file])
        place = file
    with open(place, "rb") as handle:
        return handle.read()


def listed(state, pattern):
    """Places of what is kept, by a pattern of their names."""
    if not state.startswith("gs://"):
        return [path for path in glob.glob(f"{glob.escape(state)}/{pattern}")]
    try:
        return call(["gcloud", "storage", "ls", f"{state}/{pattern}"], shown=False).split()
    except Failed as failed:
        if "matched no objects" not in failed.said:
            raise
        return []


def kept_of(parameters, part):
    """What is kept of a part: number to place."""
    found = ((re.search(rf"/{part}-([0-9]+)\.tar\.gz$", place), place) for place in listed(parameters["state"], f"{part}-*.tar.gz"))
    return {int(match[1]): place for match, place in found if match}


def versions():
    """The tools are those that are pinned: another toolkit makes something else of the same blueprint."""
    pin = pins()["toolkit"]
    said = call(["gcluster", "--version"])
    if pin["version"] not in said or pin["commit"][:7] not in said:
        raise ValueError(f"gcluster: expected {pin['version']} of commit {pin['commit']}, found {said.strip()!r}")
    call(["terraform", "version"])
    call(["packer", "version"])
