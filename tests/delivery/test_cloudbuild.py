"""Runs cloudbuild.yaml as Cloud Build would (cloudbuild.py), with stand-ins for docker and gcloud: test_cloudbuild.py PROGRAMS. The
gates in REAL are real, because their program is built already; for the others, which run in test.sh, a script only prints its name."""

import copy
import pathlib
import re
import shlex
import shutil
import sys
import tempfile
import unittest

import sdk
import yaml
from cloudbuild import Build, Refused, copy_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIG = yaml.safe_load((ROOT / "cloudbuild.yaml").read_text())
REGISTRY = "us-central1-docker.pkg.dev/my-project/burnin"
GIVEN = {"_REGISTRY": REGISTRY, "_REGION": "us-central1"}
REAL = ("fmt", "style", "schemas")
# Gates that need features absent from the image or Cloud Build: Terraform, the emulator of Pub/Sub, network namespaces, mounts.
ELSEWHERE = {"infra", "rehearsal", "delivery", "slurm", "ansible", "package", "hosts", "kubernetes", "kill", "images"}
SERVICES = sorted(path.name for path in (ROOT / "services").iterdir())
# Python version of each Debian suite.
PYTHON = {"bookworm": (3, 11), "trixie": (3, 13)}
PROGRAMS = []
STAND_INS = {
    "docker": r'''
printf '%q ' docker "$@" >>/builder/records/calls; echo >>/builder/records/calls
[[ $1 != inspect ]] || echo "${4%:*}@sha256:$(printf %s "$4" | sha256sum | cut -c1-64)"
''',
    "gcloud": r'''
printf '%q ' gcloud "$@" >>/builder/records/calls; echo >>/builder/records/calls
[[ $3 != list ]] || cat /builder/records/deployed
''',
}
PRINT = 'echo "$(basename "$0" .sh): rehearsed"\n'
IMAGES = f"for service in {' '.join(SERVICES)}; do mkdir -p target/images/dist/$service; done\n"


class CloudBuild(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="burnin-cloudbuild.")
        self.addCleanup(folder.cleanup)
        self.workspace, self.records = pathlib.Path(folder.name, "workspace"), pathlib.Path(folder.name, "records")
        self.workspace.mkdir()
        self.records.mkdir()
        (self.records / "calls").touch()
        (self.records / "deployed").write_text("".join(f"burnin-{name}\n" for name in SERVICES if name != "agent"))

    def scripts(self, real=()):
        """The project's scripts, and with real gates all of its files."""
        if real:
            copy_of(ROOT, self.workspace)
            (self.workspace / "target/debug").mkdir(parents=True)
            shutil.copy2(PROGRAMS[0] / "xtask", self.workspace / "target/debug")
            (self.workspace / ".ci/built.sh").write_text("programs=target/debug\n")
        else:
            shutil.copytree(ROOT / ".ci", self.workspace / ".ci")
        for gate in gates():
            if gate not in real:
                (self.workspace / f".ci/{gate}.sh").write_text(PRINT)
        (self.workspace / ".ci/images.sh").write_text(PRINT + IMAGES)

    def run_build(self, config=None, given=None, **more):
        build = Build(config or CONFIG, GIVEN if given is None else given, trigger=True, built_in={"COMMIT_SHA": "abc"})
        return build.run(self.workspace, self.records, STAND_INS, **more)

    def calls(self):
        return [shlex.split(line) for line in (self.records / "calls").read_text().splitlines()]

    def test_a_push_is_tested_pushed_and_rolled_out(self):
        self.scripts(REAL)
        results = self.run_build(sources=ROOT)
        self.assertEqual([(name, status) for name, status, _ in results], [("gates", 0), ("push", 0), ("roll-out", 0)], results[-1][2])
        for gate in REAL:
            self.assertRegex(results[0][2], rf"=== {gate}: passed")
        self.assertIn(f"gates: {len(gates())} passed, 0 failed, 0 skipped", results[0][2])
        for call in self.calls():
            sdk.check(call)
        pushed = dict(line.split() for line in (self.workspace / "target/images/pushed.txt").read_text().splitlines())
        self.assertEqual(sorted(pushed), SERVICES)
        self.assertIn(["docker", "push", "--quiet", f"{REGISTRY}/burnin-judge:abc-b-1"], self.calls())
        updated = {call[4]: call[8] for call in self.calls() if call[:4] == ["gcloud", "run", "services", "update"]}
        self.assertEqual(updated, {f"burnin-{name}": image for name, image in pushed.items() if name != "agent"})

    def test_a_skipped_or_failed_gate_ends_the_build(self):
        for status, expected in ((77, "FAILED, because BURNIN_SKIPPED=fail"), (1, "FAILED; the following gates did not run")):
            with self.subTest(status):
                shutil.rmtree(self.workspace)
                self.workspace.mkdir()
                self.scripts()
                (self.workspace / ".ci/build.sh").write_text(f"exit {status}\n")
                results = self.run_build()
                self.assertEqual([(name, code) for name, code, _ in results], [("gates", 1)])
                self.assertIn(f"build: {expected}", results[0][2])
                self.assertEqual(self.calls(), [])

    def test_without_a_registry_nothing_is_pushed(self):
        self.scripts()
        results = self.run_build(given={})
        self.assertEqual([status for _, status, _ in results], [0, 0, 0])
        self.assertEqual(self.calls(), [])
        self.assertIn("_REGISTRY is empty: nothing is pushed", results[1][2])

    def test_only_the_workspace_outlasts_a_step(self):
        probe = CONFIG["steps"][0]["name"]
        places = ("/tmp/left", "/opt/left", "/usr/local/bin/left", "$HOME/left", "/root/left")
        write = "\n".join(f"mkdir -p $(dirname {place}) && echo x >{place}" for place in (*places, "/workspace/kept"))
        read = "\n".join(f'[ ! -e {place} ] || {{ echo "{place} exists"; exit 1; }}' for place in places) + "\n[ -e /workspace/kept ]"
        seen = f"[ $HOME = /builder/home ] && [ $PWD = /workspace ] && [ -z \"${{_REGION-}}\" ] && [ ! -e {ROOT} ]"
        steps = [{"name": probe, "script": write}, {"name": probe, "script": read}, {"name": probe, "script": seen}]
        results = self.run_build({**CONFIG, "steps": steps})
        self.assertEqual([status for _, status, _ in results], [0, 0, 0], results[-1][2])
        self.assertFalse(pathlib.Path("/opt/left").exists() or pathlib.Path("/usr/local/bin/left").exists(), "the host is unchanged")

    def test_a_step_has_the_programs_of_its_image(self):
        cases = (("rust:1.95-bookworm", "type cargo python3", "docker gcloud terraform"), ("gcr.io/cloud-builders/docker", "type docker bash", "gcloud cargo python3"),
                 ("gcr.io/google.com/cloudsdktool/google-cloud-cli:stable", "type gcloud bash", "cargo terraform"))
        for image, present, absent in cases:
            with self.subTest(image):
                script = f"{present} && ! ( " + " || ".join(f"type {name}" for name in absent.split()) + " )"
                ((_, status, output),) = self.run_build({**CONFIG, "steps": [{"name": image, "script": script}]})
                self.assertEqual(status, 0, output)
        self.assertEqual({step["name"] for step in CONFIG["steps"]}, {image for image, *_ in cases})

    def test_a_step_has_only_its_configured_variables(self):
        script = 'echo "$_REGION $COMMIT_SHA $BUILD_ID"'
        step = {"name": "rust:1.95", "script": script}
        ((_, _, output),) = self.run_build({**CONFIG, "steps": [{**step, "automapSubstitutions": True}]})
        self.assertEqual(output.split(), ["us-central1", "abc", "b-1"])
        ((_, _, output),) = self.run_build({**CONFIG, "steps": [step]})
        self.assertEqual(output.split(), [])

    def test_wrong_substitutions_are_refused(self):
        self.refused('substitution key "REGISTRY" does not respect format', CONFIG, {"REGISTRY": "x"})
        self.refused('substitution key "PROJECT_ID" does not respect format', CONFIG, {"PROJECT_ID": "x"})
        unmapped = copy.deepcopy(CONFIG)
        for step in unmapped["steps"]:
            step.pop("automapSubstitutions", None)
        self.refused('key "_REGISTRY" in the substitution data is not matched in the template', unmapped, GIVEN)
        argument = lambda text: {**CONFIG, "steps": [*CONFIG["steps"], {"name": "rust:1.95", "args": ["echo", text]}]}
        self.refused('key in the template "REGION" is not a valid built-in substitution', argument("$REGION"))
        self.refused('key in the template "_ZONE" is not matched in the substitution data', argument("${_ZONE}"))
        self.refused('depends on "gate", which has not been defined', {**CONFIG, "steps": [{**CONFIG["steps"][1], "waitFor": ["gate"]}]})
        self.refused("unknown fields ['wait_for']", {**CONFIG, "steps": [{**CONFIG["steps"][1], "wait_for": []}]})
        with self.assertRaisesRegex(Refused, "logs_bucket"):
            Build({**CONFIG, "options": {}}, GIVEN, trigger=True)
        Build(CONFIG, GIVEN)
        Build(CONFIG, GIVEN, trigger=True)

    def refused(self, expected, config, given=None):
        with self.assertRaises(Refused) as error:
            Build(config, given)
        self.assertIn(expected, str(error.exception))

    def test_the_trigger_sets_the_substitutions_of_the_config(self):
        # A trigger ignores unknown keys: a misspelled key would have no effect, and the default value would be used.
        block = re.search(r"substitutions = \{(.*?)\n  \}", (ROOT / "infra/build.tf").read_text(), re.S).group(1)
        self.assertEqual(set(re.findall(r"^\s*(_\w+)", block, re.M)), set(CONFIG["substitutions"]))

    def test_each_gate_runs_on_cloud_build_or_is_listed_as_an_exception(self):
        here = set(re.search(r"^gates=\(([^)]*)\)$", (ROOT / ".ci/test.sh").read_text(), re.M).group(1).split())
        self.assertEqual(here - set(gates()), ELSEWHERE)
        self.assertEqual(set(gates()) - here, set())

    def test_the_image_has_the_python_of_the_pinned_packages(self):
        # With another Python the gate `chart` is skipped, and a skipped gate fails the build.
        suite = CONFIG["steps"][0]["name"].rpartition("-")[2]
        self.assertIn(f"sys.version_info[:2] != {PYTHON[suite]}", (ROOT / ".ci/helm.sh").read_text())

    def test_each_step_waits_for_the_one_before(self):
        self.assertEqual([step.get("waitFor") for step in CONFIG["steps"][1:]], [[step["id"]] for step in CONFIG["steps"][:-1]])


def gates():
    """The gates of the first step."""
    script = CONFIG["steps"][0]["script"]
    assert "BURNIN_SKIPPED=fail" in script
    return re.search(r"bash \.ci/test\.sh (.*)", script).group(1).split()


if __name__ == "__main__":
    PROGRAMS.append(pathlib.Path(sys.argv[1]))
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
