"""A project of Google Cloud as a JSON file, for the stand-ins of gcloud, docker and Terraform's provider: enabled APIs, services with their
revisions, secrets, images, and every resource that Terraform creates. Objects of buckets are files next to it. Each rule that the rehearsal
depends on has its source in the comment."""

import contextlib
import fcntl
import json
import os
import pathlib
import shutil

# API of each resource type; the longest matching prefix applies.
APIS = {
    "google_artifact_registry": "artifactregistry", "google_bigquery": "bigquery", "google_cloud_run": "run", "google_cloud_scheduler": "cloudscheduler",
    "google_cloudbuild": "cloudbuild", "google_logging": "logging", "google_monitoring": "monitoring", "google_project": "cloudresourcemanager",
    "google_project_service": "serviceusage", "google_pubsub": "pubsub", "google_secret_manager": "secretmanager", "google_service_account": "iam",
    "google_project_iam_custom_role": "iam", "google_storage": "storage", "google_kms": "cloudkms",
}
EMPTY = {"apis": [], "logins": [], "buckets": {}, "images": {}, "resources": {}, "services": {}, "secrets": {}, "project": None}
NONCE = "client.knative.dev/nonce"


class Refused(Exception):
    """A request that Google's API would refuse."""


class Cloud:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.file = self.folder / "cloud.json"
        if not self.file.exists():
            self.file.write_text(json.dumps(EMPTY))
        self.state = json.loads(self.file.read_text())

    @classmethod
    @contextlib.contextmanager
    def change(cls, folder):
        """Reads the state, and writes the caller's changes if no error was raised."""
        with open(pathlib.Path(folder) / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            cloud = cls(folder)
            yield cloud
            draft = cloud.file.with_suffix(".draft")
            draft.write_text(json.dumps(cloud.state, indent=1))
            os.replace(draft, cloud.file)

    def needs(self, api):
        if f"{api}.googleapis.com" not in self.state["apis"]:
            raise Refused(f"{api}.googleapis.com has not been used in this project before or it is disabled (SERVICE_DISABLED)")

    def needs_kind(self, kind):
        self.needs(APIS[max((prefix for prefix in APIS if kind.startswith(prefix)), key=len)])

    def bucket(self, name):
        if name not in self.state["buckets"]:
            raise Refused(f"gs://{name} not found: 404")
        path = self.folder / "buckets" / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def service(self, name):
        if name not in self.state["services"]:
            raise Refused(f"Cannot find service [{name}]")
        return self.state["services"][name]

    # Images.

    def repository(self, image):
        """An image is HOST/PROJECT/REPOSITORY/NAME."""
        host, project, repository, *_ = image.split("/")
        if host not in self.state["logins"]:
            raise Refused(f"{host}: Unauthenticated request. Unauthenticated requests do not have permission \"artifactregistry.repositories.uploadArtifacts\"")
        if f"{project}/{repository}" not in {f"{of['project']}/{of['repository_id']}" for of in self.of_kind("google_artifact_registry_repository")}:
            raise Refused(f"{image}: Repository \"{repository}\" not found")

    def of_kind(self, kind):
        return list(self.state["resources"].get(kind, {}).values())

    def needs_image(self, image):
        name, _, digest = image.partition("@")
        if digest not in self.state["images"].get(name, []):
            raise Refused(f"Image '{image}' not found")

    # Services.

    def revise(self, name, image, nonce=None):
        """A new revision, which receives the traffic unless it is pinned to another one."""
        service = self.service(name)
        self.needs_image(image)
        for secret in service["secrets"]:
            self.secret(secret)
        number = len(service["revisions"]) + 1
        # Secrets are read when a revision starts.
        read = {secret: self.state["secrets"][secret][-1]["value"] for secret in service["secrets"]}
        service["revisions"].append({"name": f"{name}-{number:05}-abc", "image": image, "secrets": read})
        service["nonce"] = nonce

    def secret(self, name):
        """The newest version that is enabled."""
        versions = [version for version in self.state["secrets"].get(name, []) if version["enabled"]]
        if not versions:
            raise Refused(f"Secret [{name}] not found or has no enabled version")
        return versions[-1]

    def serving(self, name):
        """The revision that receives the traffic."""
        service = self.service(name)
        pinned = service["traffic"]
        return next(revision for revision in reversed(service["revisions"]) if pinned in (None, revision["name"]))

    # Terraform's resources.

    def apply(self, kind, prior, planned):
        """Creates, changes or deletes a resource of Terraform."""
        self.needs_kind(kind)
        key = self.key(kind, planned or prior)
        known = self.state["resources"].setdefault(kind, {})
        if planned is None:
            self.delete(kind, prior)
            known.pop(key, None)
            if not known:
                del self.state["resources"][kind]
            return
        if prior is None and key in known and not kind.endswith("_member"):
            raise Refused(f"{kind} {key} already exists: 409")
        known[key] = {name: value for name, value in planned.items() if isinstance(value, (str, int, bool))} | {"project": self.state["project"]}
        match kind:
            case "google_project_service":
                self.state["apis"].append(planned["service"])
            case "google_storage_bucket":
                self.state["buckets"].setdefault(planned["name"], {})["retention"] = bool(planned.get("retention_policy"))
            case "google_cloud_run_v2_service":
                self.apply_service(planned)

    def apply_service(self, planned):
        (template,) = planned["template"]
        (container,) = template["containers"]
        image = container["image"]
        secrets = sorted(source["secret_key_ref"][0]["secret"] for env in container["env"] for source in env["value_source"] or ())
        environment = {env["name"]: env["value"] for env in container["env"]}
        service = self.state["services"].setdefault(planned["name"], {"revisions": [], "traffic": None, "nonce": None})
        before = (service.get("environment"), service.get("secrets"), service["revisions"][-1]["image"] if service["revisions"] else None, service["nonce"])
        service |= {"environment": environment, "secrets": secrets, "protected": planned["deletion_protection"]}
        self.state["services"][planned["name"]] = service
        nonce = (template["labels"] or {}).get(NONCE)
        if before != (environment, secrets, image, nonce):
            if template["revision"] in {revision["name"] for revision in service["revisions"]}:
                raise Refused(f"Revision named '{template['revision']}' already exists: 409")
            self.revise(planned["name"], image, nonce)

    @staticmethod
    def key(kind, value):
        """The arguments that identify a resource of a kind."""
        if kind.endswith("_member"):
            return json.dumps({name: of for name, of in value.items() if name not in ("etag", "id")}, sort_keys=True)
        names = ("name", "account_id", "dataset_id", "table_id", "repository_id", "role_id", "service", "display_name", "create_duration")
        return "/".join(str(value[name]) for name in names if isinstance(value.get(name), str) and not value[name].startswith("applied-"))

    def delete(self, kind, prior):
        # The provider refuses to delete a protected resource before it calls the API.
        if prior.get("deletion_protection"):
            raise Refused(f"cannot destroy {kind} {self.key(kind, prior)} without setting deletion_protection=false and running `terraform apply`")
        match kind:
            case "google_cloud_run_v2_service":
                del self.state["services"][prior["name"]]
            case "google_storage_bucket":
                self.delete_bucket(prior["name"], prior["force_destroy"])
            case "google_artifact_registry_repository":
                self.state["images"] = {name: of for name, of in self.state["images"].items() if name.split("/")[2] != prior["repository_id"]}

    def delete_bucket(self, name, force):
        path = self.bucket(name)
        objects = [file for file in path.rglob("*") if file.is_file()]
        if objects and not force:
            raise Refused(f"Error trying to delete bucket {name} containing objects without `force_destroy` set to true")
        if objects and self.state["buckets"][name]["retention"]:
            raise Refused(f"gs://{name}: object is subject to bucket's retention policy: 403 retentionPolicyNotMet")
        shutil.rmtree(path)
        del self.state["buckets"][name]
