"""Plans `infra/` offline with the real Terraform and the schemas of the pinned providers (provider.py): every combination of
options, a second plan after the apply, and planted errors, which must be found.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
PROVIDERS = ("google", "time")
DIGEST = "@sha256:" + "0" * 64
REQUIRED = {"project": "my-project", "alerted": ["a@example.com"],
            "images": {service.name: f"r.example/{service.name}{DIGEST}" for service in sorted((ROOT / "services").iterdir())}}
OPTIONS = {
    "agents": ["c-1", "c-2"],
    "node_accounts": ["nodes@my-project.iam.gserviceaccount.com"],
    "agent_members": ["serviceAccount:nodes@my-project.iam.gserviceaccount.com"],
    "requesters": ["serviceAccount:x@other.iam.gserviceaccount.com"],
    "listeners": {"team": "group:team@example.com"},
    "repository": {"owner": "acme", "name": "burnin"},
    "channels": {"ops.url": "ops-url", "ops.key": "ops-key", "github.token": "token"},
    "build_secrets": {"image-build": ["registry-login"], "cluster-build": ["ssh-key"]},
    "link": "https://runs.example/{run}",
    "otlp_endpoint": "https://otlp.example",
    "kms_key": "projects/p/locations/us-central1/keyRings/r/cryptoKeys/k",
    "people": ["user:a@example.com"],
    "operators": ["group:infra@example.com"],
    "github_secret": "hook",
    "git_token_secret": "git-token",
}
# A file, a text in it, its replacement, and Terraform's expected error.
PLANTED = (
    ("pubsub.tf", "ack_deadline_seconds       = 60", "ack_deadline_secs = 60", "Unsupported argument"),
    ("pubsub.tf", "max_delivery_attempts = 100", 'max_delivery_attempts = "many"', "a number is required"),
    ("storage.tf", "  location                    = var.region\n", "", "Missing required argument"),
    ("rights.tf", "google_service_account.holder[each.value.holder].member", "google_service_account.holder[each.value.holder].address",
     "Unsupported attribute"),
    ("services.tf", "    startup_probe {", "    start_probe {", "Unsupported block type"),
    ("services.tf", "template[0].containers[0].image", "template[0].containers[0].picture", "Unsupported attribute"),
    ("scheduler.tf", "  http_target {", "  http_target {\n  }\n  http_target {", "Too many http_target blocks"),
    ("services.tf", "INGRESS_TRAFFIC_INTERNAL_ONLY", "INGRESS_TRAFFIC_INTERNAL", "to be one of"),
    ("warehouse.tf", 'type  = "DAY"', 'type  = "DAILY"', "to be one of"),
    ("scheduler.tf", "  http_target {", '  pubsub_target {\n    topic_name = "projects/p/topics/t"\n  }\n  http_target {', "Invalid combination of arguments"),
    ("rights.json", '"right": "create"', '"right": "make"', "Invalid index"),
    ("variables.tf", 'variable "link"', 'variable "links"', "Reference to undeclared input variable"),
)


class Terraform:
    """A copy of `infra/` whose providers are the stand-in at `address`, with its state in a file."""

    def __init__(self, folder, address, process):
        self.folder = pathlib.Path(folder) / "infra"
        shutil.copytree(ROOT / "infra", self.folder, ignore=shutil.ignore_patterns(".terraform*", "*.tfvars*"))
        shutil.copytree(ROOT / "schemas" / "bigquery", pathlib.Path(folder) / "schemas" / "bigquery")
        versions = self.folder / "versions.tf"
        versions.write_text(re.sub(r'  # The state bucket.*?backend "gcs" \{.*?\n  \}\n', "", versions.read_text(), flags=re.S))
        stand_in = {"Protocol": "grpc", "ProtocolVersion": 6, "Pid": process, "Test": True,
                    "Addr": {"Network": "tcp", "String": address}}
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("TF_")} | {
            "TF_REATTACH_PROVIDERS": json.dumps({f"hashicorp/{name}": stand_in for name in PROVIDERS}),
            "CHECKPOINT_DISABLE": "1"}

    def run(self, *words):
        """Exit status and output."""
        done = subprocess.run(["terraform", *words, "-no-color"], cwd=self.folder, env=self.environment, text=True, timeout=120,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return done.returncode, done.stdout

    def plan(self, values, *more):
        (self.folder / "values.tfvars.json").write_text(json.dumps(values))
        return self.run("plan", "-input=false", "-lock=false", "-var-file=values.tfvars.json", *more)


def fail(what, output):
    sys.exit(f"{what}:\n{output}")


def combinations():
    """No option, each option alone, all options but one, all options. Every two options are planned with both, one, the other and none."""
    yield "no option", {}
    for name in OPTIONS:
        yield f"{name} alone", {name: OPTIONS[name]}
        yield f"all but {name}", {other: value for other, value in OPTIONS.items() if other != name}
    yield "all options", OPTIONS


def seconds(text):
    return float(text.removesuffix("s"))


def broken_rules(plan):
    """Settings that Google's services refuse, or under which they lose events or ignore conditions of grants."""
    resources = plan["planned_values"]["root_module"]["resources"]
    # Unknown values are absent.
    of = lambda kind: [resource["values"] for resource in resources if resource["type"] == kind]
    found = []
    expect = lambda what, met: met or found.append(what)
    for bucket in of("google_storage_bucket"):
        # Page "Use IAM Conditions on buckets": conditions need uniform access.
        expect(f"{bucket['name']}: uniform access", bucket["uniform_bucket_level_access"] is True)
        expect(f"{bucket['name']}: no public access", bucket["public_access_prevention"] == "enforced")
    for subscription in of("google_pubsub_subscription"):
        name = subscription["name"]
        # pubsub.proto: unused subscriptions expire after 31 days, unless the lifetime is empty.
        expect(f"{name}: no expiry", [policy["ttl"] for policy in subscription["expiration_policy"]] == [""])
        # Limits from the pages "Filter messages" and "Subscription properties".
        expect(f"{name}: filter", len((subscription.get("filter") or "").encode()) <= 256)
        expect(f"{name}: deadline", 10 <= (subscription.get("ack_deadline_seconds") or 10) <= 600)
        expect(f"{name}: retention", 600 <= seconds(subscription.get("message_retention_duration") or "604800s") <= 31 * 86400)
        for policy in subscription["dead_letter_policy"]:
            expect(f"{name}: deliveries", 5 <= policy["max_delivery_attempts"] <= 100)
        for policy in subscription["retry_policy"]:
            expect(f"{name}: backoff", 0 <= seconds(policy["minimum_backoff"]) <= seconds(policy["maximum_backoff"]) <= 600)
    return found


# A text of the plan, its replacement, and the rule that the replacement breaks.
BREAKING = (
    ('"uniform_bucket_level_access": true', '"uniform_bucket_level_access": false', "uniform access"),
    ('"ttl": ""', '"ttl": "2678400s"', "no expiry"),
    ('"max_delivery_attempts": 100', '"max_delivery_attempts": 101', "deliveries"),
    ('"maximum_backoff": "600s"', '"maximum_backoff": "601s"', "backoff"),
)


def planned(terraform):
    """The plan with all options, as JSON text."""
    status, output = terraform.plan(REQUIRED | OPTIONS, "-out=plan")
    if status:
        fail("terraform plan", output)
    status, output = terraform.run("show", "-json", "plan")
    if status:
        fail("terraform show", output)
    return output


def rules(terraform):
    """Checks the planned settings against rules that no schema states."""
    plan = json.loads(planned(terraform))
    if found := broken_rules(plan):
        fail("the plan breaks rules of Google's services", "\n".join(found))
    text = json.dumps(plan)
    for right, wrong, expected in BREAKING:
        if right not in text:
            sys.exit(f"the plan has no {right}")
        if not any(expected in found for found in broken_rules(json.loads(text.replace(right, wrong)))):
            sys.exit(f"{wrong} is not found")
    print(f"terraform: the plan breaks no rule of buckets and subscriptions; {len(BREAKING)} planted errors are found")


def check(terraform):
    status, output = terraform.run("init", "-input=false")
    if status:
        fail("terraform init", output)
    status, output = terraform.run("validate")
    if status:
        fail("terraform validate", output)
    rules(terraform)
    counts = {}
    for what, options in combinations():
        status, output = terraform.plan(REQUIRED | options)
        planned = re.search(r"Plan: (\d+) to add, 0 to change, 0 to destroy", output)
        if status or not planned:
            fail(f"terraform plan with {what}", output)
        counts[what] = int(planned.group(1))
    print(f"terraform plan: {len(counts)} combinations of options, {counts['no option']} to {counts['all options']} resources")
    status, output = terraform.run("apply", "-input=false", "-auto-approve", "-var-file=values.tfvars.json")
    if status:
        fail("terraform apply", output)
    status, output = terraform.plan(REQUIRED | OPTIONS, "-detailed-exitcode")
    if status:
        fail("the second plan after the apply is not empty", output)
    # A rollout changes the image outside Terraform; the next plan must not revert it.
    images = {name: image.replace("0" * 64, "1" * 64) for name, image in REQUIRED["images"].items()}
    status, output = terraform.plan(REQUIRED | OPTIONS | {"images": images}, "-detailed-exitcode")
    if status:
        fail("a plan with other images is not empty", output)
    print("terraform apply: the second plan is empty, also with other images")


def planted(terraform):
    for name, text, replacement, expected in PLANTED:
        path = terraform.folder / name
        right = path.read_text()
        if text not in right:
            sys.exit(f"{name}: the text to replace is absent: {text!r}")
        path.write_text(right.replace(text, replacement, 1))
        (terraform.folder / "terraform.tfstate").unlink(missing_ok=True)
        status, output = terraform.plan(REQUIRED | OPTIONS)
        path.write_text(right)
        if not status or expected not in " ".join(output.split()):
            fail(f"{name}: {replacement!r} instead of {text!r}: expected {expected!r}", output)
    print(f"terraform: {len(PLANTED)} planted errors are found")


def main():
    with tempfile.TemporaryDirectory() as folder, subprocess.Popen(
            [sys.executable, "-B", HERE / "provider.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as provider:
        try:
            terraform = Terraform(folder, provider.stdout.readline().strip(), provider.pid)
            check(terraform)
            planted(terraform)
        finally:
            provider.stdin.close()


if __name__ == "__main__":
    main()
