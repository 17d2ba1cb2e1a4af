"""Tests the image's build config with `burnin check` and `burnin run`, and a stand-in for docker that records its calls."""

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
    workflow.write_text(json.dumps({"name": "image", "description": "The image only.", "image": {"build": build}}))
    return subprocess.run([os.environ["BURNIN"], command, str(workflow), *more], capture_output=True, text=True, check=False,
                          env={**os.environ, "PATH": path + os.environ["PATH"]})


@unittest.skipUnless("BURNIN" in os.environ, "needs BURNIN, the path of the program")
class Config(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_burnin_accepts_the_config(self):
        result = burnin("check", {"_REPOSITORY": GOOD["_REPOSITORY"], "_BASE": BASE}, self.folder)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_a_misspelled_substitution_is_reported_before_any_step(self):
        copy = pathlib.Path(self.folder) / "image.yaml"
        copy.write_text((IMAGE / "image.yaml").read_text().replace("BASE=${_BASE}", "BASE=${_BSAE}"))
        result = burnin("check", {}, self.folder, config=copy)
        self.assertEqual(result.returncode, 64)
        self.assertIn("_BSAE", result.stdout + result.stderr)

    def docker(self):
        path = pathlib.Path(self.folder) / "bin"
        path.mkdir()
        (path / "docker").write_text(f'#!/bin/sh\nfor word; do printf "%s\\n" "$word"; done >{self.folder}/docker-args\n')
        (path / "docker").chmod(0o755)
        return f"{path}:"

    def run_config(self, substitutions):
        data = f"{self.folder}/data"
        result = burnin("run", substitutions, self.folder, "--data", data, path=self.docker())
        args = pathlib.Path(self.folder) / "docker-args"
        logs = "".join(file.read_text(errors="replace") for file in pathlib.Path(data).rglob("*log*") if file.is_file())
        return args.read_text().splitlines() if args.exists() else None, result.stdout + result.stderr + logs

    def test_docker_is_called_with_the_substitutions(self):
        args, output = self.run_config({"_REPOSITORY": GOOD["_REPOSITORY"], "_BASE": BASE})
        self.assertIsNotNone(args, output)
        self.assertEqual(args[:3], ["build", "--pull", f"--build-arg=BASE={BASE}"])
        self.assertIn("--build-arg=NCCL_TESTS_COMMIT=a0b82b2260cf5152b9f8c061bbf7eaf0ba096432", args)
        (tag,) = [word for word in args if word.startswith("--tag=")]
        self.assertRegex(tag, r"^--tag=us-docker\.pkg\.dev/p/r/a4-gke-testbed:[\w.-]+$")

    def test_a_base_by_tag_is_rejected_before_docker_is_called(self):
        args, output = self.run_config({"_REPOSITORY": GOOD["_REPOSITORY"], "_BASE": "us/p/nemo:nemo25.04-gib1.0.6-A4"})
        self.assertIsNone(args)
        self.assertIn("_BASE: expected an image by digest", output)


class Parameters(unittest.TestCase):
    def check(self, **more):
        return subprocess.run([sys.executable, str(IMAGE / "check.py")], capture_output=True, text=True, check=False,
                              env={"PATH": os.environ["PATH"], **GOOD, **more})

    def test_all_invalid_values_are_reported_together(self):
        self.assertEqual(self.check().returncode, 0)
        result = self.check(_BASE="", _REPOSITORY="r", _NCCL_TESTS_COMMIT="v2.19.6", _CUDA_ARCHITECTURE="100 --rm")
        self.assertEqual(result.returncode, 64)
        for name in GOOD:
            self.assertIn(f"{name}: expected", result.stderr)

    def test_hostile_values_are_rejected(self):
        for name, good in GOOD.items():
            for hostile in ("", " ", good + "\n", good + '"', good + " ", "$(id)", "{{x}}", good + ";id", "-" + good):
                with self.subTest(name=name, hostile=hostile):
                    result = self.check(**{name: hostile})
                    self.assertEqual(result.returncode, 64)
                    self.assertIn(name, result.stderr)


class Dockerfile(unittest.TestCase):
    text = (IMAGE / "Dockerfile").read_text()

    def test_the_base_and_nccl_tests_are_pinned(self):
        self.assertEqual(re.findall(r"^FROM (.*)$", self.text, re.MULTILINE), ["${BASE}"])
        self.assertEqual(re.findall(r"^ARG (\w+)$", self.text, re.MULTILINE), ["BASE", "NCCL_TESTS_COMMIT"])
        self.assertIn('rev-parse HEAD) == "${NCCL_TESTS_COMMIT}"', self.text)

    def test_no_secrets_are_copied_or_set(self):
        for word in ("COPY", "ADD", "ENV", "authorized_keys", "passwd", "ssh-keygen -t"):
            self.assertNotIn(f"\n{word} ", self.text)
        self.assertIn("/etc/ssh/ssh_host_*", self.text)


if __name__ == "__main__":
    unittest.main()
