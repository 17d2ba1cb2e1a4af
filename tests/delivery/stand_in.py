"""Stand-ins for gcloud, docker, terraform, curl and burnin: stand_in.py TOOL WORD... They refuse unknown commands, flags and arguments
(sdk.json). gcloud and docker change the project in the folder $CLOUD (cloud.py); terraform is the real one with a provider that changes
this project; curl and burnin are the real ones, and the deployed gateway's address leads them to a `burnin up` on this host."""

import hashlib
import os
import pathlib
import re
import shutil
import sys

import sdk
from cloud import Cloud, Refused


def one(flags, name, otherwise=None):
    return flags.get(name, [otherwise])[-1]


class Gcloud:
    """The commands that scripts and runbook execute. Methods such as `update` receive the command's arguments and flags."""

    def __init__(self, cloud):
        self.cloud, self.state = cloud, cloud.state

    def run(self, name, arguments, flags):
        if name not in ("config set", "auth configure-docker", "auth print-identity-token") and not self.state["project"]:
            raise Refused("The required property [project] is not currently set")
        command = getattr(self, name.replace(" ", "_").replace("-", "_"), None)
        if command is None:
            raise Refused(f"the rehearsal executes no `gcloud {name}`")
        command(arguments, flags)

    def config_set(self, arguments, _):
        name, value = arguments
        assert name == "project"
        self.state["project"] = value

    def services_enable(self, arguments, _):
        self.state["apis"] += arguments

    def auth_configure_docker(self, arguments, _):
        # Without an argument only gcr.io is configured.
        self.state["logins"] += arguments[0].split(",") if arguments else ["gcr.io"]

    def auth_print_identity_token(self, *_):
        print("token-of-you@example.com")

    def storage_buckets_create(self, arguments, flags):
        self.cloud.needs("storage")
        for url in arguments:
            if self.name(url) in self.state["buckets"]:
                raise Refused(f"{url}: 409")
            self.state["buckets"][self.name(url)] = {"retention": False}

    def storage_buckets_update(self, arguments, flags):
        for url in arguments:
            self.cloud.bucket(self.name(url))
            if "--clear-retention-period" in flags:
                self.state["buckets"][self.name(url)]["retention"] = False

    @staticmethod
    def name(url):
        if not url.startswith("gs://"):
            raise Refused(f"{url}: not a URL of a bucket")
        return url.removeprefix("gs://").strip("/")

    def storage_rsync(self, arguments, flags):
        source, target = arguments
        bucket, _, prefix = self.name(target).partition("/")
        if "--recursive" not in flags:
            raise Refused("rsync: without --recursive only files of the folder itself are copied")
        shutil.copytree(source, self.cloud.bucket(bucket) / prefix, dirs_exist_ok=True)

    def storage_rm(self, arguments, flags):
        for url in arguments:
            bucket, _, prefix = self.name(url).partition("/")
            if "--recursive" not in flags:
                raise Refused(f"{url} is a bucket or a folder: --recursive is missing")
            if not prefix:
                self.cloud.delete_bucket(bucket, True)
            elif not (self.cloud.bucket(bucket) / prefix).exists():
                raise Refused(f"The following URLs matched no objects or files: {url}")
            else:
                shutil.rmtree(self.cloud.bucket(bucket) / prefix)

    def run_services_list(self, _, flags):
        assert one(flags, "--format") == "value(metadata.name)", "other formats are not simulated"
        print("\n".join(sorted(self.state["services"])))

    def run_services_update(self, arguments, flags):
        (name,) = arguments
        service = self.cloud.service(name)
        image = one(flags, "--image")
        secrets = one(flags, "--update-secrets")
        # The same checks as in surface/run/services/update.py of the SDK.
        if not set(flags) - {"--region", "--quiet", "--async", "--namespace"}:
            raise Refused("No configuration change requested. Did you mean to include the flags ...?")
        if unknown := set(flags) - {"--region", "--quiet", "--image", "--update-secrets"}:
            raise Refused(f"the rehearsal does not simulate {', '.join(unknown)}")
        if secrets and secrets.split("=")[1].removesuffix(":latest") not in service["secrets"]:
            raise Refused(f"{secrets}: Terraform would remove this secret of {name}")
        # The SDK clears the template's name, and forces a revision by a label (command_lib/run/serverless_operations.py).
        self.cloud.revise(name, image or service["revisions"][-1]["image"], nonce=f"n{len(service['revisions'])}")

    def run_services_update_traffic(self, arguments, flags):
        (name,) = arguments
        service = self.cloud.service(name)
        if "--to-latest" in flags:
            service["traffic"] = None
            return
        revision, _, share = one(flags, "--to-revisions", "").partition("=")
        if share != "100" or revision not in {of["name"] for of in service["revisions"]}:
            raise Refused(f"Revision [{revision}] with {share} %: not found")
        service["traffic"] = revision

    def run_revisions_list(self, _, flags):
        names = [revision["name"] for revision in self.cloud.service(one(flags, "--service"))["revisions"]]
        assert one(flags, "--format") == "value(metadata.name)" and one(flags, "--sort-by") == "~metadata.creationTimestamp"
        print("\n".join(names[::-1][:int(one(flags, "--limit"))]))

    def secrets_create(self, arguments, flags):
        self.cloud.needs("secretmanager")
        (name,) = arguments
        if name in self.state["secrets"]:
            raise Refused(f"Secret [{name}] already exists")
        self.state["secrets"][name] = []
        self.secrets_versions_add(arguments, flags)

    def secrets_versions_add(self, arguments, flags):
        (name,) = arguments
        if name not in self.state["secrets"]:
            raise Refused(f"Secret [{name}] not found")
        path = one(flags, "--data-file")
        value = sys.stdin.read() if path == "-" else pathlib.Path(path).read_text()
        self.state["secrets"][name].append({"value": value, "enabled": True})

    def secrets_versions_access(self, arguments, flags):
        assert arguments == ["latest"]
        sys.stdout.write(self.cloud.secret(one(flags, "--secret"))["value"])

    def secrets_versions_disable(self, arguments, flags):
        self.state["secrets"][one(flags, "--secret")][int(arguments[0]) - 1]["enabled"] = False

    def secrets_delete(self, arguments, _):
        (name,) = arguments
        del self.state["secrets"][name]


def docker(cloud, name, arguments, flags):
    """Images are kept in a file of the folder until they are pushed."""
    local = cloud.state.setdefault("local images", {})
    match name:
        case "build":
            # The Dockerfile copies this folder.
            service = dict(pair.split("=", 1) for pair in flags["--build-arg"])["SERVICE"]
            content = pathlib.Path(arguments[0], "target/images/dist", service, "service").read_bytes()
            local[one(flags, "--tag")] = "sha256:" + hashlib.sha256(service.encode() + content).hexdigest()
        case "push":
            (image,) = arguments
            tagless = image.rpartition(":")[0]
            cloud.repository(tagless)
            cloud.state["images"].setdefault(tagless, []).append(local[image])
        case "inspect":
            (image,) = arguments
            print(f"{image.rpartition(':')[0]}@{local[image]}")
        case _:
            raise Refused(f"the rehearsal executes no `docker {name}`")


def terraform(cloud, name, flags, words):
    """Replaces this process with the real Terraform, which confirms each question."""
    words = list(words)
    if name == "init":
        key, _, bucket = one(flags, "-backend-config", "").partition("=")
        if key != "bucket":
            raise Refused("init: the backend needs -backend-config=bucket=BUCKET")
        cloud.bucket(bucket)
        # The state is a file: the copy of infra/ has no backend.
        words = [word for word in words if not word.startswith("-backend-config")]
    if name in ("apply", "destroy"):
        words += ["-auto-approve"]
    if name in ("apply", "destroy", "plan", "init"):
        words += ["-input=false", "-no-color"]
    os.execv(os.environ["TERRAFORM"], ["terraform", *words])


GATEWAY = "https://burnin-gateway.run.app"


CLUSTER = re.compile(r"^cluster:\n(?:[ ]+.*\n)+", re.MULTILINE)
CRON = re.compile(r'cron: ".*"')


def workflows(cloud):
    """Copies the bucket's workflows for the local server, with processes instead of their clusters, and with schedules that start no run while
    the rehearsal lasts."""
    bucket, here = cloud.bucket("my-project-burnin-artefacts") / "workflows", pathlib.Path(os.environ["LOCAL_WORKFLOWS"])
    shutil.rmtree(here)
    if bucket.exists():
        shutil.copytree(bucket, here)
    else:
        here.mkdir()
    for file in here.glob("*.yaml"):
        text = file.read_text()
        if "processes:" in text:
            raise Refused(f"{file.name}: cluster.rent.processes: the deployed services have no process supervisor")
        text = CLUSTER.sub("cluster: {rent: {processes: {nodes: 4}}}\n", text)
        file.write_text(CRON.sub('cron: "0 0 1 1 *"', text))


def client(cloud, tool, words):
    """Replaces this process with the real curl or burnin, and the deployed gateway with the local one."""
    if tool == "burnin" and words[:1] == ["check"]:
        os.execv(os.environ["BURNIN"], [tool, *words])
    cloud.serving("burnin-gateway")
    workflows(cloud)
    local, header = os.environ["LOCAL_SERVER"], pathlib.Path(os.environ["LOCAL_HEADER"])
    if tool == "curl":
        if not any(word.startswith(GATEWAY + "/") for word in words) or "Authorization: Bearer token-of-you@example.com" not in words:
            raise Refused("Cloud Run: 401 or 404; expected a path of the gateway and an identity token")
        words = [word.replace(GATEWAY, local).replace("Authorization: Bearer token-of-you@example.com", header.read_text().strip()) for word in words]
        os.execv(os.environ["CURL"], [tool, *words])
    if os.environ.get("BURNIN_SERVER") != GATEWAY or os.environ.get("BURNIN_TOKEN") != "token-of-you@example.com":
        raise Refused("BURNIN_SERVER or BURNIN_TOKEN is not the deployed gateway's")
    token = header.read_text().strip().rpartition(" ")[2]
    os.execve(os.environ["BURNIN"], [tool, *words], {**os.environ, "BURNIN_SERVER": local, "BURNIN_TOKEN": token})


def main():
    tool, words = sys.argv[1], sys.argv[2:]
    folder = os.environ["CLOUD"]
    with open(pathlib.Path(folder) / "calls", "a") as calls:
        calls.write(" ".join([tool, *words]) + "\n")
    try:
        name, arguments, flags = sdk.check([tool, *words]) if tool in sdk.TOOLS else (None, None, None)
        if tool == "terraform":
            terraform(Cloud(folder), name, flags, words)
        if tool in ("curl", "burnin"):
            client(Cloud(folder), tool, words)
        with Cloud.change(folder) as cloud:
            if tool == "gcloud":
                Gcloud(cloud).run(name, arguments, flags)
            else:
                docker(cloud, name, arguments, flags)
    except (sdk.Wrong, Refused) as error:
        sys.exit(f"{tool}: {error}")


if __name__ == "__main__":
    main()
