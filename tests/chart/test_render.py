"""Tests the rendered chart with Helm's engine: golden manifests, schemas, labels, and rejected values.

`UPDATE_GOLDEN=1` rewrites the golden files; review the difference."""

import base64
import json
import os
import subprocess
import tempfile
import unittest

import helm_python as helm
import jsonschema
import kubernetes_validate
import yaml

from world import FLOW, HERE, ROOT, VALUES, merged, pod_spec, render

KUBERNETES = ("1.31", "1.33", "1.35")
CASES = {
    "two-nodes": {},
    "eight-nodes": {"gpus": 64, "topology": {"request": "required", "level": "cloud.google.com/gce-topology-subblock"},
                    "nodes": {"avoid": ["gke-bad-1", "gke-bad-2"]}, "provisioning": {"maxRunSeconds": 7200}},
    "debug": {"debug": {"keepMinutes": 30}, "network": {"mode": "host", "nccl": {"NCCL_MIN_NCHANNELS": "32"}}},
    "without-fuse": {"bucket": "", "queue": ""},
}
LABELS = {"burnin-run": "r-1", "burnin-attempt": "1", "burnin-cluster": "c-1", "burnin-expires": "1800000000"}
JOBSET = json.loads((HERE / "jobset-v1alpha2.json").read_text())


def jobset_problems(jobset):
    """Validates the JobSet with this folder's schema and its Job with Kubernetes' schema."""
    jsonschema.validate(jobset, JOBSET)
    for job in jobset["spec"]["replicatedJobs"]:
        whole = {"apiVersion": "batch/v1", "kind": "Job", "metadata": job["template"].get("metadata", {}) | {"name": "x"},
                 "spec": job["template"]["spec"]}
        for version in KUBERNETES:
            kubernetes_validate.validate(whole, version, strict=True)


class Rendered(unittest.TestCase):
    def test_manifests_match_the_golden_files(self):
        for name, values in CASES.items():
            with self.subTest(name):
                objects = render(values)
                # Keys differ in each rendering, and other tests check the files.
                objects["Secret"]["data"] = {key: "(made for this release)" for key in objects["Secret"]["data"]}
                plan = json.loads(objects["ConfigMap"]["data"]["plan.json"])
                for file in (FLOW / "chart" / "files").iterdir():
                    self.assertEqual(objects["ConfigMap"]["data"][file.name], file.read_text())
                objects["ConfigMap"]["data"] = {key: plan if key == "plan.json" else "(the file)"
                                                for key in objects["ConfigMap"]["data"]}
                text = yaml.safe_dump_all([objects[kind] for kind in sorted(objects)], width=120)
                golden = HERE / "golden" / f"{name}.yaml"
                if os.environ.get("UPDATE_GOLDEN"):
                    golden.parent.mkdir(exist_ok=True)
                    golden.write_text(text)
                self.assertEqual(text, golden.read_text())

    def test_every_object_matches_its_schema_and_has_the_labels(self):
        for name, values in CASES.items():
            with self.subTest(name):
                objects = render(values)
                self.assertEqual(sorted(objects), ["ConfigMap", "JobSet", "Secret", "Service"])
                jobset_problems(objects["JobSet"])
                for kind in ("ConfigMap", "Secret", "Service"):
                    for version in KUBERNETES:
                        kubernetes_validate.validate(objects[kind], version, strict=True)
                job = objects["JobSet"]["spec"]["replicatedJobs"][0]["template"]
                for labeled in (*objects.values(), job, job["spec"]["template"]):
                    labels = labeled["metadata"]["labels"]
                    self.assertEqual({key: labels[key] for key in LABELS}, LABELS)
                for made in objects.values():
                    self.assertEqual(made["metadata"]["namespace"], "tests")

    def test_our_jobset_schema_accepts_a_recorded_jobset_and_rejects_misspelled_fields(self):
        recorded = json.loads((HERE / "jobset-recorded.json").read_text())
        jobset_problems(recorded)
        recorded["spec"]["failurePolicy"]["maxRestart"] = 1
        with self.assertRaises(jsonschema.ValidationError):
            jobset_problems(recorded)
        misspelled = render()["JobSet"]
        pod_spec({"JobSet": misspelled})["spec"]["restartpolicy"] = "Never"
        with self.assertRaises(kubernetes_validate.ValidationError):
            jobset_problems(misspelled)

    def test_every_pod_has_a_deadline(self):
        """Checks for all values: deadlines, no restarts, no `sleep infinity`."""
        for name, values in CASES.items():
            with self.subTest(name):
                objects = render(values)
                spec = objects["JobSet"]["spec"]
                job = spec["replicatedJobs"][0]["template"]["spec"]
                plan = json.loads(objects["ConfigMap"]["data"]["plan.json"])
                self.assertGreater(job["activeDeadlineSeconds"], plan["deadline_s"] + plan["keep_s"])
                self.assertEqual(job["activeDeadlineSeconds"], job["template"]["spec"]["activeDeadlineSeconds"])
                self.assertLessEqual(job["activeDeadlineSeconds"], 2 * 86400)
                self.assertEqual((job["backoffLimit"], spec["failurePolicy"]["maxRestarts"]), (0, 0))
                self.assertGreater(spec["ttlSecondsAfterFinished"], 0)
                self.assertNotIn("infinity", json.dumps(objects))

    def test_each_release_has_new_keys_that_openssh_reads(self):
        first, second = render()["Secret"]["data"], render()["Secret"]["data"]
        self.assertEqual(len({*first.values(), *second.values()}), 4)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "key")
            with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
                file.write(base64.b64decode(first["user"]))
            public = subprocess.run(["ssh-keygen", "-y", "-f", path], capture_output=True, text=True, check=True)
        self.assertTrue(public.stdout.startswith("ecdsa-sha2-nistp256 "))

    def test_the_files_contain_no_secrets_and_no_endless_sleep(self):
        for file in FLOW.rglob("*"):
            if file.is_file() and "__pycache__" not in str(file):
                text = file.read_text()
                for word in ("PRIVATE KEY-----", "ssh-rsa AAAA", "ssh-ed25519 AAAA", "HF_TOKEN=", "sleep infinity"):
                    self.assertNotIn(word, text, file)

    def test_helm_lint_passes(self):
        for name, values in CASES.items():
            with self.subTest(name):
                found = helm.lint(str(FLOW / "chart"), merged(VALUES, values), strict=True, kube_version="v1.33.0")
                self.assertEqual(found["errors"], [])
                self.assertEqual([message for message in found["messages"] if message["severity"] > 1], [])

    def test_queue_and_topology_set_suspension_and_annotations(self):
        jobset = render()["JobSet"]
        self.assertTrue(jobset["spec"]["suspend"])
        self.assertEqual(jobset["metadata"]["labels"]["kueue.x-k8s.io/queue-name"], "a4")
        annotations = pod_spec({"JobSet": jobset})["metadata"]["annotations"]
        self.assertEqual(annotations["kueue.x-k8s.io/podset-preferred-topology"], "cloud.google.com/gce-topology-block")
        interfaces = json.loads(annotations["networking.gke.io/interfaces"])
        self.assertEqual([(each["interfaceName"], each["network"]) for each in interfaces],
                         [("eth0", "default")] + [(f"eth{n + 2}", f"rdma-{n}") for n in range(8)])
        free = render({"queue": ""})["JobSet"]
        self.assertFalse(free["spec"]["suspend"])
        self.assertNotIn("kueue", json.dumps(free))
        loose = pod_spec(render({"topology": {"request": "unconstrained"}}))["metadata"]["annotations"]
        self.assertEqual(loose["kueue.x-k8s.io/podset-unconstrained-topology"], "true")
        self.assertNotIn("topology", json.dumps(pod_spec(render({"topology": {"request": "none"}}))["metadata"]))


def strings(schema, path=()):
    """Paths of all string values in the schema: lists by their first item, maps by a valid key."""
    kind = schema.get("type")
    if kind == "string":
        yield path
    elif kind == "array":
        yield from strings(schema["items"], (*path, 0))
    elif kind == "object":
        for name, inner in schema.get("properties", {}).items():
            yield from strings(inner, (*path, name))
        if isinstance(schema.get("additionalProperties"), dict):
            yield from strings(schema["additionalProperties"], (*path, "NCCL_MIN_NCHANNELS"))


def nested(path, value):
    for name in reversed(path):
        value = [value] if name == 0 else {name: value}
    return value


def dotted(path):
    return ".".join(str(name) for name in path)


HOSTILE = (" ", "a b", 'a"b', "a'b", "a\nb", "a\n", "$(id)", "a$(id)", "`id`", "{{ .Values.run }}", "a{{", "a;b", "a#b", "-a", "../a",
           "a\\b", "a\tb", "é", "\u2028", "x" * 300)


class Values(unittest.TestCase):
    schema = json.loads((FLOW / "chart" / "values.schema.json").read_text())

    def check_rejected(self, values, *words, name="bed"):
        with self.assertRaises(helm.HelmError) as caught:
            render(values, name=name)
        for word in words:
            self.assertIn(word, str(caught.exception))

    def test_hostile_strings_are_rejected_by_name(self):
        # The launcher is a program, so any text is valid.
        paths = [path for path in strings(self.schema) if path != ("launcher",) and path != ["launcher"]]
        self.assertGreater(len(paths), 15)
        for path in paths:
            for hostile in HOSTILE:
                with self.subTest(value=dotted(path), hostile=hostile):
                    # The values of NCCL settings may be any plain word.
                    if path[-1] == "NCCL_MIN_NCHANNELS" and hostile in ("-a", "../a"):
                        continue
                    self.check_rejected(nested(path, hostile), *[str(name) for name in path])

    def test_a_launcher_is_rendered_unchanged(self):
        for hostile in HOSTILE:
            self.assertEqual(render({"launcher": hostile})["ConfigMap"]["data"]["custom.sh"], hostile)
        self.assertNotIn("custom.sh", render()["ConfigMap"]["data"])

    def test_invalid_values_are_rejected_by_name(self):
        wrong = {
            "gpus": [12, 20, 65, 8, 0, -8, "16", 8200, 16.5, None],
            "attempt": [0, "1", 1.5], "expires": [0, "soon", 17], "run": ["", 7], "cluster": [""],
            "image": ["", "r/p/testbed:latest", "r/p/testbed@sha256:abc", "testbed@sha256:" + "a" * 64],
            "network.gib.image": ["", "r/p/gib:v1.0.6"], "network.mode": ["both"], "topology.request": ["maybe"],
            "network.nccl": [{"NCCL_NET": "Socket"}, {"NCCL_DEBUG": "WARN"}, {"PATH": "/"}, {"NCCL_X": 3}],
            "tests.all_reduce.minBytes": ["2MB", "0"], "tests.all_reduce.stepFactor": [1], "tests.all_reduce.iterations": [1],
            "limits.reachSeconds": [0, 1e9], "debug.keepMinutes": [121, -1, "forever"], "bucket": ["gs://logs"],
            "folder": ["/a", "a//b", "a/../b"], "queue": ["A4"],
        }
        for name, values in wrong.items():
            for value in values:
                with self.subTest(value=name, wrong=value):
                    # For a map the error names the key.
                    self.check_rejected(nested(name.split("."), value), next(iter(value)) if isinstance(value, dict) else name.split(".")[-1])

    def test_an_unknown_value_is_rejected_by_name(self):
        self.check_rejected({"workload": {"gpus": 32}}, "workload")
        self.check_rejected({"debug": {"sleepInfinity": True}}, "sleepInfinity")

    def test_conflicting_values_are_rejected(self):
        self.check_rejected({"tests": {"all_gather": {"minBytes": "4G", "maxBytes": "2M"}}}, "tests.all_gather.minBytes")
        self.check_rejected({"limits": {"deadlineSeconds": 300}}, "limits.deadlineSeconds: expected at least 3480")
        self.check_rejected({"nodes": {"only": ["a"], "avoid": ["a"]}}, "nodes.avoid")
        self.check_rejected({}, "release name", name="a" * 41)
        self.check_rejected({}, "release name", name="me.testbed")

    def test_missing_required_values_are_rejected_by_name(self):
        for name in ("run", "cluster", "image", "expires"):
            with self.subTest(name):
                self.check_rejected({name: 0 if name == "expires" else ""}, name)

    def test_sizes_reach_the_launcher_in_bytes(self):
        plan = json.loads(render({"tests": {"all_gather": {"minBytes": "8", "maxBytes": "16G", "stepFactor": 4}}})
                          ["ConfigMap"]["data"]["plan.json"])
        self.assertEqual([(test["min_bytes"], test["max_bytes"]) for test in plan["tests"]], [(2 << 20, 16 << 30), (8, 16 << 30)])


if __name__ == "__main__":
    unittest.main()
