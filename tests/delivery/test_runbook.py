"""Tests docs/RUNBOOK.md: each command exists with its flags, and the procedures, executed in their order over stand-ins, have the stated
results. test_runbook.py PYTHON PROGRAMS: a Python with the modules of the stand-in provider, the folder of the built programs."""

import json
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

import runbook
import sdk
from rehearsal import Failed, Rehearsal, blocks

PAGE = runbook.PAGE.read_text()
PROGRAMS = {}
# Sections that `test_from_nothing_to_removal` executes.
PROCEDURES = ("Deploy from nothing", "First run", "Runs from a terminal", "Upgrade", "Roll back", "GitHub's webhook", "Runs started by a schedule or a push",
              "Rotate", "Remove")
# A text of the page, its replacement, and the expected error.
TYPOS = (
    ("--to-revisions=", "--to-revision=", "unknown flag --to-revision"),
    ("services update-traffic", "services traffic", "unknown command run services traffic"),
    ("burnin-github --data-file=-", "burnin-github", "--data-file is required"),
    ("gcloud secrets create", "gcloud secret create", "unknown command secret"),
    ("gcloud config set project $PROJECT", "gcloud config set project", "1 arguments"),
    ("--uniform-bucket-level-access", "--uniform-access", "unknown flag --uniform-access"),
    ("subscriptions pull burnin-dead", "subscriptions pull burnin-dead --autoack", "unknown flag --autoack"),
    ("-chdir=infra state rm", "-chdir=infra state remove", "unknown command state remove"),
    ("-chdir=infra destroy", "destroy", "expected -chdir=infra"),
    ("-detailed-exitcode", "-detailed-exit-code", "unknown flag -detailed-exit-code"),
    ("'images={}'", "'image={}'", "unknown variable image={}"),
    ("google_artifact_registry_repository.images", "google_artifact_registry_repository.image", "unknown resource"),
    ("output -raw webhook", "output -raw webhooks", "unknown output webhooks"),
    ("bash .ci/rollout.sh", "bash .ci/roll-out.sh", "does not exist"),
    ("burnin logs latest --follow", "burnin log latest --follow", "unknown command log"),
    ("burnin logs latest --follow", "burnin logs latest --follows", "unknown flag --follows"),
    ("curl --fail", "curl --fails", "unknown flag --fails"),
    ("bq show -j", "bq show --jobs", "unknown flag --jobs"),
    ("openssl rand", "opensl rand", "unknown program opensl"),
)
# A mistake in a procedure: the text, its replacement, and a text of the failing command's output.
SKIPPED = (
    (" bigquery.googleapis.com\n", "\n", "bigquery.googleapis.com has not been used in this project"),
    ("$ gcloud config set project $PROJECT\n", "", "[project] is not currently set"),
    ("$ gcloud auth configure-docker $REGION-docker.pkg.dev --quiet\n", "", "Unauthenticated request"),
    ("   $ terraform -chdir=infra apply -target=google_artifact_registry_repository.images -var 'images={}'\n", "", 'Repository "burnin" not found'),
    ("$ bash .ci/images.sh dist\n   $ bash .ci/push.sh\n", "$ bash .ci/push.sh\n", "run .ci/images.sh dist first"),
)
# Parts of infra/services.tf: if one of them is missing, the plan after a rollout is not empty.
IGNORED = ("template[0].containers[0].image, ", "template[0].labels, ")


class Commands(unittest.TestCase):
    def test_every_command_exists_with_its_flags(self):
        found = runbook.commands(PAGE)
        self.assertGreater(len(found), 70)
        for command in found:
            with self.subTest(str(command)):
                runbook.check(command, PROGRAMS["burnin"])

    def test_typos_are_found(self):
        for right, wrong, expected in TYPOS:
            with self.subTest(wrong):
                self.assertIn(right, PAGE)
                errors = []
                for command in runbook.commands(PAGE.replace(right, wrong)):
                    try:
                        runbook.check(command, PROGRAMS["burnin"])
                    except sdk.Wrong as error:
                        errors.append(str(error))
                self.assertTrue(any(expected in error for error in errors), errors)

    def test_scripts_use_flags_that_exist(self):
        number = 0
        for script in ("push.sh", "rollout.sh"):
            for line in (runbook.ROOT / ".ci" / script).read_text().splitlines():
                for words in runbook.simple(line) if re.search(r"(^\s*|\$\()(gcloud|docker) ", line) else ():
                    with self.subTest(line):
                        sdk.check(words)
                        number += 1
        self.assertEqual(number, 6)


class Procedures(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="burnin-runbook.")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def rehearsal(self, name):
        rehearsal = Rehearsal(self.folder / name, PROGRAMS).create()
        self.addCleanup(rehearsal.stop)
        return rehearsal

    def refused(self, rehearsal, commands, expected):
        with self.assertRaises(Failed) as failed:
            rehearsal.run(commands)
        self.assertIn(expected, " ".join(str(failed.exception).replace("│", " ").split()))

    def test_from_nothing_to_removal(self):
        cloud = self.rehearsal("cloud")
        for block in blocks(PAGE, "Deploy from nothing"):
            cloud.run(block)
        first = cloud.images()
        self.assertEqual(set(first), {f"burnin-{path.name}" for path in (runbook.ROOT / "services").iterdir()} - {"burnin-agent"})
        apis = re.findall(r'"(\w+)"', (runbook.ROOT / "infra/apis.tf").read_text().partition("toset")[2].partition("])")[0])
        self.assertGreater(len(apis), 10)
        self.assertLessEqual({f"{api}.googleapis.com" for api in apis}, set(cloud.cloud().state["apis"]))

        cloud.serve()
        (first_run,) = blocks(PAGE, "First run")
        output = cloud.run(first_run)
        self.assertIn('"schema":"burnin/about/v1"', output)
        self.assertRegex(output, r"(?m)^PASS ")

        (terminal,) = blocks(PAGE, "Runs from a terminal")
        output = cloud.run(terminal)
        self.assertRegex(output, r"(?m)^PASS ")
        self.assertRegex(output, r"slurm: \S+ pinned")

        (upgrade,) = blocks(PAGE, "Upgrade")
        cloud.run(upgrade)
        second = cloud.images()
        self.assertFalse(set(first.values()) & set(second.values()), "a rollout replaces every image")

        rolled_back, pinned = blocks(PAGE, "Roll back")
        cloud.run(rolled_back)
        self.assertEqual(cloud.images(), first)
        self.without_ignored(cloud)
        cloud.run(pinned)
        self.assertEqual(cloud.images(), first | {"burnin-judge": second["burnin-judge"]})
        cloud.run(["bash .ci/rollout.sh good.txt"])
        self.assertEqual(cloud.images(), first, "a rollout ends the rollback of one service")

        (webhook,) = blocks(PAGE, "GitHub's webhook")
        self.assertTrue(cloud.run(webhook).endswith("https://burnin-hooks.run.app/hooks/github"))
        self.assertEqual(set(cloud.cloud().serving("burnin-notifier")["secrets"]), {"burnin-github-token"})
        self.assertEqual(cloud.cloud().serving("burnin-notifier")["image"], first["burnin-notifier"], "an apply keeps the image of a rollout")
        self.started_by_themselves(cloud)
        self.rotate(cloud)
        self.remove(cloud)

    def started_by_themselves(self, cloud):
        (block,) = blocks(PAGE, "Runs started by a schedule or a push")
        answer = json.loads(cloud.run(block).splitlines()[-1])
        workflows = {workflow["name"]: workflow for workflow in answer["workflows"]}
        self.assertEqual((set(workflows), answer["problems"]), ({"nightly", "on-push", "slurm"}, []))
        self.assertTrue(all(workflow["startable"] for workflow in workflows.values()))
        self.assertEqual(len(workflows["nightly"]["next"]), 1)
        self.assertEqual(workflows["on-push"]["on"]["push"][0]["repository"], "acme/burnin")
        # Without their first commands the shipped files are refused.
        for name in ("nightly", "on-push"):
            shutil.copy2(cloud.project / f"workflows/{name}.yaml", cloud.project / "own")
            self.refused(cloud, block[-2:], f"{name}.yaml: cluster.rent.processes")
            (cloud.project / f"own/{name}.yaml").unlink()
            (cloud.cloud().bucket("my-project-burnin-artefacts") / f"workflows/{name}.yaml").unlink()
        cloud.run(block)

    def without_ignored(self, cloud):
        """Without the exceptions in services.tf the next apply would change services after a rollout."""
        services = cloud.project / "infra/services.tf"
        text = services.read_text()
        for part in IGNORED:
            self.assertIn(part, text)
            services.write_text(text.replace(part, ""))
            self.refused(cloud, [f"terraform -chdir=infra plan -detailed-exitcode {target('google_cloud_run_v2_service.service', 'judge')}"],
                         "Plan: 0 to add, 1 to change, 0 to destroy")
        services.write_text(text)

    def rotate(self, cloud):
        read = lambda: cloud.cloud().serving("burnin-hooks")["secrets"]["burnin-github"].split()
        (old,) = read()
        both, new = blocks(PAGE, "Rotate")
        cloud.run(both)
        accepted = read()
        self.assertEqual((len(accepted), accepted[1]), (2, old))
        cloud.run(new)
        self.assertEqual(read(), accepted[:1])
        self.refused(cloud, ["gcloud run services update burnin-hooks --region=us-central1"], "No configuration change requested")
        cloud.run([f"terraform -chdir=infra plan -detailed-exitcode {target('google_cloud_run_v2_service.service', 'hooks')}"])

    def remove(self, cloud):
        for bucket in ("ledger", "artefacts", "build-logs"):
            (cloud.cloud().bucket(f"my-project-burnin-{bucket}") / "object").write_text("content")
        workflows, resources, rest, ledger = blocks(PAGE, "Remove")
        cloud.run(workflows)
        lift, apply, keep, destroy = resources
        self.refused(cloud, [f"{destroy} {target('google_cloud_run_v2_service.service', 'judge')}"], "without setting deletion_protection=false")
        cloud.run([lift, apply])
        self.refused(cloud, [f"{destroy} {target('google_storage_bucket.bucket', 'ledger')}"],
                     "bucket my-project-burnin-ledger containing objects without `force_destroy`")
        cloud.run([keep, destroy])
        cloud.run(rest)
        state = cloud.cloud().state
        self.assertEqual(list(state["buckets"]), ["my-project-burnin-ledger"])
        self.assertEqual((cloud.cloud().bucket("my-project-burnin-ledger") / "object").read_text(), "content")
        self.assertEqual(set(state["resources"]) - {"google_project_service"}, {"google_storage_bucket"})
        self.assertEqual((len(state["resources"]["google_storage_bucket"]), state["services"], state["secrets"], state["images"]), (1, {}, {}, {}))
        self.assertEqual([path.name for path in (cloud.project / "infra").glob("*.auto.*")], [])
        self.refused(cloud, ledger[1:], "retentionPolicyNotMet")
        cloud.run(ledger)
        self.assertEqual(cloud.cloud().state["buckets"], {})

    def test_a_skipped_command_fails(self):
        for number, (right, wrong, expected) in enumerate(SKIPPED):
            with self.subTest(expected):
                self.assertIn(right, PAGE)
                commands = sum(blocks(PAGE.replace(right, wrong, 1), "Deploy from nothing"), [])
                self.refused(self.rehearsal(f"skipped-{number}"), commands, expected)

    def test_every_block_of_a_procedure_is_executed(self):
        sections = {command.section for command in runbook.commands(PAGE) if command.block}
        self.assertEqual(sections, set(PROCEDURES))


def target(resource, key):
    """Limits Terraform to one resource, which is faster than a plan of all resources."""
    return f"""-target='{resource}["{key}"]'"""


if __name__ == "__main__":
    PROGRAMS |= {"python": sys.argv[1], "burnin": f"{sys.argv[2]}/burnin", "terraform": shutil.which("terraform"), "curl": shutil.which("curl")}
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
