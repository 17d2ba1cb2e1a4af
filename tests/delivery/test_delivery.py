"""Tests .ci/push.sh and .ci/rollout.sh with stand-ins for docker and gcloud that record their calls."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
REGISTRY = "us-central1-docker.pkg.dev/p/burnin"
DOCKER = r'''
echo "docker $*" >>"$CALLS"
case $1 in
  push) [[ -z ${REFUSE:-} || $3 != *"$REFUSE"* ]] || { echo "denied" >&2; exit 1; } ;;
  inspect) echo "${4%%:*}@sha256:$(printf %s "$4" | sha256sum | cut -c1-64)" ;;
esac
'''
GCLOUD = r'''
echo "gcloud $*" >>"$CALLS"
[[ $3 != list ]] || printf '%s\n' $DEPLOYED
'''


class Delivery(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        shutil.copytree(ROOT / ".ci", self.folder / ".ci")
        for service in ("agent", "gateway", "judge"):
            (self.folder / "target/images/dist" / service).mkdir(parents=True)
        (self.folder / "bin").mkdir()
        for name, script in (("docker", DOCKER), ("gcloud", GCLOUD)):
            (self.folder / "bin" / name).write_text("#!/usr/bin/env bash\n" + script)
            (self.folder / "bin" / name).chmod(0o755)
        self.calls = self.folder / "calls"
        self.list = self.folder / "target/images/pushed.txt"

    def run_script(self, script, *args, **environment):
        environment = {"PATH": f"{self.folder}/bin:{os.environ['PATH']}", "CALLS": str(self.calls), "_REGISTRY": REGISTRY,
                       "_REGION": "us-central1", "COMMIT_SHA": "abc", "DEPLOYED": "burnin-gateway burnin-hooks burnin-judge", **environment}
        self.calls.write_text("")
        return subprocess.run(["bash", f".ci/{script}.sh", *args], cwd=self.folder, env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)

    def called(self, *words):
        return [line for line in self.calls.read_text().splitlines() if line.startswith(" ".join(words))]

    def pushed(self, build="b1", **environment):
        return self.run_script("push", BUILD_ID=build, **environment)

    def test_images_are_pushed_and_rolled_out_by_digest(self):
        self.assertEqual(self.pushed().returncode, 0)
        lines = [line.split() for line in self.list.read_text().splitlines()]
        self.assertEqual([service for service, _ in lines], ["agent", "gateway", "judge"])
        for service, image in lines:
            self.assertRegex(image, rf"^{REGISTRY}/burnin-{service}@sha256:[0-9a-f]{{64}}$")
        self.assertEqual(len(self.called("docker push")), 3)
        self.assertIn(f"{REGISTRY}/burnin-judge:abc-b1", self.called("docker push")[2])
        done = self.run_script("rollout")
        self.assertEqual(done.returncode, 0, done.stdout)
        images = dict(lines)
        # The webhooks' service has the gateway's image; agents are not services.
        self.assertEqual(self.called("gcloud run services update"), [
            call for service, image in (("gateway", "gateway"), ("hooks", "gateway"), ("judge", "judge")) for call in (
                f"gcloud run services update burnin-{service} --region us-central1 --image {images[image]} --quiet",
                f"gcloud run services update-traffic burnin-{service} --region us-central1 --to-latest --quiet")])

    def test_only_deployed_services_are_updated(self):
        self.pushed()
        done = self.run_script("rollout", DEPLOYED="burnin-judge-old burnin-judge")
        self.assertEqual([line.split()[4] for line in self.called("gcloud run services update ")], ["burnin-judge"])
        self.assertIn("burnin-gateway is not deployed; terraform apply creates it", done.stdout)

    def test_an_earlier_list_is_the_rollback(self):
        self.pushed("b1")
        good = self.folder / "good.txt"
        shutil.copy(self.list, good)
        self.pushed("b2")
        self.assertNotEqual(self.list.read_text(), good.read_text(), "each build has its own tag, because tags are immutable")
        self.run_script("rollout", str(good))
        image = dict(line.split() for line in good.read_text().splitlines())["judge"]
        self.assertIn(f"--image {image} ", self.called("gcloud run services update burnin-judge")[0])

    def test_the_digests_are_written_as_values_for_terraform(self):
        self.pushed()
        values = json.loads((self.folder / "target/images/images.auto.tfvars.json").read_text())
        self.assertEqual(values["images"], dict(line.split() for line in self.list.read_text().splitlines()))

    def test_a_refused_push_leaves_the_earlier_list(self):
        self.pushed("b1")
        before = self.list.read_text()
        self.assertEqual(self.pushed("b2", REFUSE="judge").returncode, 1)
        self.assertEqual(self.list.read_text(), before)

    def test_missing_input_is_reported(self):
        done = self.run_script("rollout")
        self.assertEqual((done.returncode, done.stdout), (1, "target/images/pushed.txt is missing: run .ci/push.sh first\n"))
        shutil.rmtree(self.folder / "target/images/dist")
        (self.folder / "target/images/dist").mkdir()
        self.assertEqual(self.pushed().returncode, 1)
        for script in ("push", "rollout"):
            done = self.run_script(script, _REGISTRY="")
            self.assertEqual((done.returncode, self.calls.read_text()), (0, ""), done.stdout)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
