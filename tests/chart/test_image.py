"""The image's build config as Burnin checks and runs it, with a docker that records how it was called."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from world import FLOW

IMAGE = FLOW / "image"
BASE = "us-central1-docker.pkg.dev/deeplearning-images/reproducibility/pytorch-gpu-nemo-nccl@sha256:" + "c" * 64
GOOD = {"_REPOSITORY": "us-docker.pkg.dev/p/r", "_BASE": BASE, "_NCCL_TESTS_COMMIT": "a" * 40, "_CUDA_ARCHITECTURE": "100"}


def burnin(command, substitutions, folder, *more, path="", config=IMAGE / "image.yaml"):
    workflow = pathlib.Path(folder) / "workflow.yaml"
    build = {"config": str(config), "source": str(IMAGE), "substitutions": substitutions}
    workflow.write_text(json.dumps({"name": "image", "description": "The image alone.", "image": {"build": build}}))
    return subprocess.run([os.environ["BURNIN"], command, str(workflow), *more], capture_output=True, text=True, check=False,
                          env={**os.environ, "PATH": path + os.environ["PATH"]})


@unittest.skipUnless("BURNIN" in os.environ, "BURNIN names the program")
class Config(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_burnin_finds_it_good(self):
        said = burnin("check", {"_REPOSITORY": GOOD["_REPOSITORY"], "_BASE": BASE}, self.folder)
        self.assertEqual(said.returncode, 0, said.stdout + said.stderr)

    def test_a_misspelt_name_is_found_before_anything_runs(self):
        copy = pathlib.Path(self.folder) / "image.yaml"
        copy.write_text((IMAGE / "image.yaml").read_text().replace("BASE=${_BASE}", "BASE=${_BSAE}"))
        said = burnin("check", {}, self.folder, config=copy)
        self.assertEqual(said.returncode, 64)
        self.assertIn("_BSAE", said.stdout + said.stderr)

    def docker(self):
        path = pathlib.Path(self.folder) / "bin"
        path.mkdir()
        (path / "docker").write_text(f'#!/bin/sh\nfor word; do printf "%s\\n" "$word"; done >{self.folder}/docker-args\n')
        (path / "docker").chmod(0o755)
        return f"{path}:"

    def run_it(self, substitutions):
        data = f"{self.folder}/data"
        said = burnin("run", substitutions, self.folder, "--data", data, path=self.docker())
        args = pathlib.Path(self.folder) / "docker-args"
        logs = "".join(file.read_text(errors="replace") for file in pathlib.Path(data).rglob("*log*") if file.is_file())
        return args.read_text().splitlines() if args.exists() else None, said.stdout + said.stderr + logs

    def test_docker_is_called_with_what_was_asked_for(self):
        args, said = self.run_it({"_REPOSITORY": GOOD["_REPOSITORY"], "_BASE": BASE})
        self.assertIsNotNone(args, said)
        self.assertEqual(args[:3], ["build", "--pull", f"--build-arg=BASE={BASE}"])
        self.assertIn("--build-arg=NCCL_TESTS_COMMIT=a0b82b2260cf5152b9f8c061bbf7eaf0ba096432", args)
        (tag,) = [word for word in args if word.startswith("--tag=")]
        self.assertRegex(tag, r"^--tag=us-docker\.pkg\.dev/p/r/a4-gke-testbed:[\w.-]+$")

    def test_a_base_by_tag_does_not_reach_docker(self):
        args, said = self.run_it({"_REPOSITORY": GOOD["_REPOSITORY"], "_BASE": "us/p/nemo:nemo25.04-gib1.0.6-A4"})
        self.assertIsNone(args)
        self.assertIn("_BASE: expected an image by digest", said)


class Parameters(unittest.TestCase):
    def check(self, **more):
        return subprocess.run([sys.executable, str(IMAGE / "check.py")], capture_output=True, text=True, check=False,
                              env={"PATH": os.environ["PATH"], **GOOD, **more})

    def test_what_is_wrong_is_named_all_at_once(self):
        self.assertEqual(self.check().returncode, 0)
        said = self.check(_BASE="", _REPOSITORY="r", _NCCL_TESTS_COMMIT="v2.19.6", _CUDA_ARCHITECTURE="100 --rm")
        self.assertEqual(said.returncode, 64)
        for name in GOOD:
            self.assertIn(f"{name}: expected", said.stderr)

    def test_hostile_values_are_refused(self):
        for name, good in GOOD.items():
            for hostile in ("", " ", good + "\n", good + '"', good + " ", "$(id)", "{{x}}", good + ";id", "-" + good):
                with self.subTest(name=name, hostile=hostile):
                    said = self.check(**{name: hostile})
                    self.assertEqual(said.returncode, 64)
                    self.assertIn(name, said.stderr)


class Dockerfile(unittest.TestCase):
    text = (IMAGE / "Dockerfile").read_text()

    def test_what_changes_by_itself_is_pinned(self):
        self.assertEqual(re.findall(r"^FROM (.*)$", self.text, re.MULTILINE), ["${BASE}"])
        self.assertEqual(re.findall(r"^ARG (\w+)$", self.text, re.MULTILINE), ["BASE", "NCCL_TESTS_COMMIT"])
        self.assertIn('rev-parse HEAD) == "${NCCL_TESTS_COMMIT}"', self.text)

    def test_nothing_secret_is_copied_or_set(self):
        for word in ("COPY", "ADD", "ENV", "authorized_keys", "passwd", "ssh-keygen -t"):
            self.assertNotIn(f"\n{word} ", self.text)
        self.assertIn("/etc/ssh/ssh_host_*", self.text)


if __name__ == "__main__":
    unittest.main()
