"""Tests the cluster's steps as in their configs, with stand-ins for the cloud's tools."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import jsonschema
import kubernetes_validate
import yaml

from world import FLOW, HERE, ROOT

CLUSTER = FLOW / "cluster"
HASH = "@sha256:" + "d" * 64
BY_BURNIN = {"_CLUSTER": "c-1", "_RUN": "r-1", "_EXPIRES": "1800000000"}
PARAMETERS = {"_PROJECT": "my-project", "_REGION": "us-central1", "_NODES": "2", "_ZONE": "us-central1-b", "_RESERVATION": "a4-res",
         "_AUTHORIZED_CIDR": "203.0.113.7/32", "_TERRAFORM_BUCKET": "states", "_JOBSET_CHART": "oci://h.example/charts/jobset" + HASH,
         "_KUEUE_CHART": "oci://h.example/charts/kueue" + HASH, "_GIB_IMAGE": "h.example/gib" + HASH}


class Cloud:
    """A simulated cloud, a state folder, and the steps of a config in their workspace."""

    def __init__(self, test, tools=("gcluster", "terraform", "gcloud", "kubectl", "helm", "dig"), **world):
        folder = tempfile.TemporaryDirectory()
        test.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.state, self.file, path = self.folder / "state", self.folder / "world", self.folder / "bin"
        path.mkdir()
        for tool in tools:
            (path / tool).write_text(f'#!/bin/sh\nCLOUD={self.file} exec {sys.executable} -S {HERE}/cloud.py {tool} "$@"\n')
            (path / tool).chmod(0o755)
        (path / "python3").symlink_to(sys.executable)
        # The PATH contains only the stand-ins and the programs that the steps need.
        for tool in ("env", "bash", "sh"):
            (path / tool).symlink_to(shutil.which(tool))
        self.file.write_text(json.dumps({"calls": [], "faults": {}, "things": {}, "objects": [], "crds": [], "releases": [], **world}))
        self.environment = {"PATH": str(path), "HOME": str(self.folder), "TESTBED_POLL_S": "0.02",
                            "PYTHONDONTWRITEBYTECODE": "1"}

    def world(self):
        return json.loads(self.file.read_text())

    def change(self, **more):
        self.file.write_text(json.dumps({**self.world(), **more}))

    def run(self, name, **substitutions):
        """Runs a config's steps until one fails. Returns its id, its exit status and the output of all steps."""
        config = yaml.safe_load((CLUSTER / f"{name}.yaml").read_text())
        given = {**config["substitutions"], **BY_BURNIN, "_STATE": str(self.state), **PARAMETERS, **substitutions}
        given = {key: value for key, value in given.items() if key in config["substitutions"]}
        self.workspace = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        shutil.copytree(CLUSTER, self.workspace, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        output = ""
        for step in config["steps"]:
            done = subprocess.run(["bash", "-c", step["script"]], cwd=self.workspace, env={**self.environment, **given}, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=180, check=False)
            output += done.stdout
            if done.returncode:
                return step["id"], done.returncode, output
        return None, 0, output

    def read(self, name):
        return json.loads((self.workspace / name).read_text())

    def calls(self, *beginning):
        return [call for call in self.world()["calls"] if call[: len(beginning)] == list(beginning)]


class Deploy(unittest.TestCase):
    def failed(self, cloud, step, words, **substitutions):
        ended, status, output = cloud.run("deploy", **substitutions)
        self.assertEqual(ended, step, output)
        self.assertIn(words, output)
        self.assertFalse((cloud.workspace / "cluster.json").exists())
        return status

    def test_a_cluster_is_created_and_checked(self):
        cloud = Cloud(self, faults={"controller": 1, "webhook": 1, "queue": 2})
        ended, _, output = cloud.run("deploy")
        self.assertIsNone(ended, output)
        made = cloud.read("cluster.json")
        jsonschema.validate(made, json.loads((ROOT / "schemas/deployed/cluster.json").read_text()))
        self.assertEqual(made["nodes"], [{"name": "gke-a4-0", "slots": 8}, {"name": "gke-a4-1", "slots": 8}])
        self.assertEqual(made["kubernetes"], {
            "access": {"gke": {"server": "https://gke-1a2b-1.us-central1.gke.goog", "certificate_authority": ""}},
            "namespace": "burnin", "queue": "a4", "service_account": "testbed"})
        self.assertEqual(cloud.read("kubernetes.json")["queue"], "a4")
        # The teardown's input is stored before the cluster is created; the cluster has the labels.
        calls = cloud.world()["calls"]
        self.assertEqual([call[:2] for call in calls if call[0] == "gcluster"], [["gcluster", "--version"], ["gcluster", "create"], ["gcluster", "deploy"]])
        self.assertIn("--dns-endpoint", cloud.calls("gcloud", "container", "clusters", "get-credentials")[0])
        self.assertEqual(sorted(path.name for path in cloud.state.iterdir()), ["deployment.tar", "ordered.json"])
        settings = cloud.world()["settings"]
        self.assertEqual(settings["vars"]["labels"], {"burnin-cluster": "c-1", "burnin-run": "r-1", "burnin-expires": "1800000000"})
        self.assertRegex(settings["vars"]["deployment_name"], r"^b[0-9a-f]{10}$")
        self.assertEqual(settings["terraform_backend_defaults"]["configuration"], {"bucket": "states"})
        # The deployment file sets exactly the blueprint's variables.
        blueprint = yaml.safe_load((CLUSTER / "blueprint.yaml").read_text())
        self.assertEqual(sorted(settings["vars"]), sorted(blueprint["vars"]))
        installed = {call[3]: call[4] for call in cloud.calls("helm", "upgrade")}
        self.assertEqual(installed, {"jobset": PARAMETERS["_JOBSET_CHART"], "kueue": PARAMETERS["_KUEUE_CHART"]})

    def test_objects_match_kubernetes_schemas_and_have_the_labels(self):
        cloud = Cloud(self)
        self.assertIsNone(cloud.run("deploy")[0])
        items = {each["kind"]: each for each in cloud.world()["objects"]}
        for kind in ("Namespace", "ServiceAccount", "DaemonSet"):
            kubernetes_validate.validate(items[kind], "1.33", strict=True)
        for each in items.values():
            self.assertEqual(each["metadata"]["labels"]["burnin-cluster"], "c-1")
        self.assertEqual(items["ClusterQueue"]["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"], 16)
        self.assertEqual(items["ResourceFlavor"]["spec"]["topologyName"], items["Topology"]["metadata"]["name"])
        self.assertEqual(items["Topology"]["spec"]["levels"][0]["nodeLabel"], "cloud.google.com/gce-topology-block")
        # The chart's defaults match these objects.
        values = yaml.safe_load((FLOW / "chart/values.yaml").read_text())
        self.assertIn({"nodeLabel": values["topology"]["level"]}, items["Topology"]["spec"]["levels"])

    AGENT = {"_AGENT": "h.example/agent" + HASH, "_ARTEFACTS": "my-artefacts"}

    def test_an_agent_is_installed_in_the_cluster(self):
        cloud = Cloud(self)
        ended, _, output = cloud.run("deploy", **self.AGENT, _BURNIN_PROJECT="my-burnin")
        self.assertIsNone(ended, output)
        made = cloud.read("cluster.json")
        jsonschema.validate(made, json.loads((ROOT / "schemas/deployed/cluster.json").read_text()))
        self.assertEqual(made["kubernetes"]["access"], "in_cluster")
        (created,) = cloud.calls("gcloud", "pubsub", "subscriptions", "create")
        deployment = cloud.world()["settings"]["vars"]["deployment_name"]
        self.assertEqual(created[4:7], [f"{deployment}-agent", "--project=my-project", "--topic=projects/my-burnin/topics/burnin-agent"])
        self.assertIn('--message-filter=attributes.cluster = "c-1"', created)
        self.assertIn("--labels=burnin-cluster=c-1,burnin-expires=1800000000,burnin-run=r-1", created)
        member = ("--member=principal://iam.googleapis.com/projects/123456789012/locations/global/workloadIdentityPools/my-project.svc.id.goog"
                  "/subject/ns/burnin/sa/burnin-agent")
        # Terraform grants the agent's other permissions.
        self.assertEqual(cloud.world()["bindings"], [
            ["pubsub", "subscriptions", f"{deployment}-agent", "--project=my-project", member, "--role=roles/pubsub.subscriber"]])
        items = {each["kind"]: each for each in cloud.read("agent-objects.json")["items"]}
        self.assertEqual(sorted(items), ["ClusterRole", "ClusterRoleBinding", "Deployment", "Role", "RoleBinding", "ServiceAccount"])
        for each in items.values():
            kubernetes_validate.validate(each, "1.33", strict=True)
            self.assertEqual(each["metadata"]["labels"]["burnin-cluster"], "c-1")
        (container,) = items["Deployment"]["spec"]["template"]["spec"]["containers"]
        self.assertEqual({each["name"]: each["value"] for each in container["env"]}, {
            "PORT": "8089", "BURNIN_AUTH": "platform", "BURNIN_CLUSTER": "c-1", "BURNIN_PROJECT": "my-burnin", "BURNIN_TOPICS": "burnin-",
            "BURNIN_PULL": f"projects/my-project/subscriptions/{deployment}-agent", "BURNIN_ARTEFACTS": "gs://my-artefacts"})
        # The permissions equal rbac.yaml, which a Rust test compares with the program's requests.
        roles = {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all((FLOW / "rbac.yaml").read_text())}
        rules = lambda role: sorted((group, resource, sorted(rule["verbs"])) for rule in role["rules"]
                                    for group in rule["apiGroups"] for resource in rule["resources"])
        self.assertEqual(rules(items["Role"]), rules(roles["Role", "burnin"]))
        self.assertEqual(rules(items["ClusterRole"]), rules(roles["ClusterRole", "burnin-nodes"]))
        # The teardown also removes the agent's resources outside the cluster.
        cloud.change(faults={"subscription": 1})
        self.assertIsNone(cloud.run("destroy")[0])
        self.assertEqual(cloud.read("gone.json")["left"], [f"subscription {deployment}-agent"])
        self.assertIsNone(cloud.run("destroy")[0])
        self.assertEqual(cloud.read("gone.json")["left"], [])
        self.assertEqual((cloud.world()["bindings"], cloud.world()["subscriptions"]), ([], []))

    def test_an_agent_is_removed_from_an_existing_cluster(self):
        cloud = Cloud(self, existing="theirs", namespace={"metadata": {"name": "burnin", "labels": {"team": "x"}}})
        self.assertIsNone(cloud.run("deploy", _EXISTING="theirs", **self.AGENT)[0])
        self.assertIn("Deployment", [each["kind"] for each in cloud.world()["objects"]])
        self.assertIsNone(cloud.run("destroy", _EXISTING="theirs")[0])
        self.assertEqual((cloud.read("gone.json")["left"], cloud.world()["objects"], cloud.world()["bindings"]), ([], [], []))

    def test_without_an_agent_none_of_its_resources_is_created(self):
        cloud = Cloud(self)
        self.assertIsNone(cloud.run("deploy")[0])
        self.assertEqual((cloud.calls("gcloud", "pubsub"), cloud.calls("gcloud", "projects")), ([], []))
        self.assertEqual(self.failed(Cloud(self), "check", "_ARTEFACTS: expected the artefact bucket with _AGENT", _AGENT=self.AGENT["_AGENT"]), 64)

    def test_a_served_version_of_kueues_api_is_used(self):
        cloud = Cloud(self, served={"topologies": ["v1alpha1"]})
        self.assertIsNone(cloud.run("deploy")[0])
        versions = {each["kind"]: each["apiVersion"] for each in cloud.world()["objects"] if "kueue" in each["apiVersion"]}
        self.assertEqual(versions, {"Topology": "kueue.x-k8s.io/v1alpha1", "ResourceFlavor": "kueue.x-k8s.io/v1beta2",
                                    "ClusterQueue": "kueue.x-k8s.io/v1beta2", "LocalQueue": "kueue.x-k8s.io/v1beta2"})
        self.failed(Cloud(self, served={"clusterqueues": ["v2"]}), "apply", "expected v1beta2 or v1beta1 or v1alpha1, Kueue serves v2")

    def test_versions_are_stated_once_and_tracked(self):
        folder = CLUSTER.relative_to(ROOT)
        tracked = subprocess.run(["git", "ls-files", "--cached", str(folder)], cwd=ROOT, capture_output=True, text=True, check=False)
        if tracked.returncode == 0:
            self.assertIn(f"{folder}/pins.json", tracked.stdout.split())
        pins = json.loads((CLUSTER / "pins.json").read_text())
        for name, pin in pins.items():
            self.assertIn("source", pin, name)
        substitutions = yaml.safe_load((FLOW / "image/image.yaml").read_text())["substitutions"]
        self.assertEqual(substitutions["_NCCL_TESTS_COMMIT"], pins["nccl_tests"]["commit"])
        readme = (FLOW / "README.md").read_text()
        for words in (f"JobSet {pins['jobset']['version']}", f"Kueue {pins['kueue']['version']}", f"gIB {pins['gib']['version']}", pins["base"]["tag"]):
            self.assertIn(words, readme)
        major, minor = map(int, pins["toolkit"]["version"].removeprefix("v").split(".")[:2])
        self.assertGreaterEqual((major, minor), (1, 76), "the first version with all settings of the blueprint")

    def test_only_a_running_gcluster_reaches_the_api_by_address(self):
        cloud = Cloud(self)
        self.assertIsNone(cloud.run("deploy")[0])
        during = [each["cidr_block"] for each in cloud.world()["settings"]["vars"]["authorized_networks"]]
        self.assertEqual(during, ["198.51.100.4/32", "203.0.113.7/32"])
        self.assertEqual(cloud.world()["authorized"], ["203.0.113.7/32"])
        # The teardown runs on another machine.
        cloud.change(own="198.51.100.9")
        self.assertIsNone(cloud.run("destroy")[0])
        self.assertEqual((cloud.read("gone.json")["left"], cloud.world()["things"]), ([], {}))
        self.assertEqual(cloud.world()["authorized"], ["198.51.100.9/32", "203.0.113.7/32"])
        cloud = Cloud(self)
        self.assertIsNone(cloud.run("deploy", _AUTHORIZED_CIDR="")[0])
        self.assertEqual(cloud.world()["authorized"], [])

    def test_an_unknown_own_address_creates_nothing(self):
        cloud = Cloud(self, own=";; connection timed out")
        self.failed(cloud, "make", "dig: expected this machine's public IPv4 address")
        self.assertEqual(cloud.calls("gcluster", "create"), [])

    def test_an_exhausted_quota_and_a_stock_out_are_reported(self):
        self.failed(Cloud(self, faults={"quota": 1}), "make", "failed with exit status 1: quota: Quota 'GPUS_PER_GPU_FAMILY' exceeded")
        self.failed(Cloud(self, faults={"stockout": 1}), "make", "failed with exit status 1: stock-out: ZONE_RESOURCE_POOL_EXHAUSTED")

    def test_a_wait_times_out_and_names_the_missing_condition(self):
        for world, words in (({"not_ready": 1}, "gke-a4-1: not Ready"), ({"bad_gpu": 0}, "gke-a4-0: 7 of 8 GPUs"),
                             ({"nodes": 1}, "expected 2 good nodes, found 1"), ({"networks": 7}, "networks: not ready after 1 s: expected rdma-7"),
                             ({"faults": {"queue": 10**6}}, "queue: not ready after 1 s: not active: wait")):
            with self.subTest(words):
                cloud = Cloud(self, **world)
                ended, _, output = cloud.run("deploy", _READY_SECONDS="1")
                self.assertEqual(ended, "ready", output)
                self.assertIn(words, output)

    def test_a_failed_cluster_is_reported(self):
        self.failed(Cloud(self, faults={"cluster": 1}), "make", "expected RUNNING, found ERROR")

    def test_existing_controllers_and_nodes_of_an_existing_cluster_are_kept(self):
        cloud = Cloud(self, tools=("gcloud", "kubectl", "helm"), existing="theirs", crds=["jobsets.jobset.x-k8s.io"], nodes=5, bad_gpu=0)
        ended, _, output = cloud.run("deploy", _EXISTING="theirs", _ZONE="", _RESERVATION="", _AUTHORIZED_CIDR="", _TERRAFORM_BUCKET="")
        self.assertIsNone(ended, output)
        self.assertEqual([call[3] for call in cloud.calls("helm", "upgrade")], ["kueue"])
        self.assertEqual([node["name"] for node in cloud.read("cluster.json")["nodes"]], ["gke-a4-1", "gke-a4-2"])
        self.assertEqual(cloud.run("destroy", _EXISTING="theirs")[0], None)
        self.assertEqual(cloud.read("gone.json")["left"], [])
        self.assertEqual([call[2] for call in cloud.calls("helm", "uninstall")], ["kueue"])
        self.assertIn("jobsets.jobset.x-k8s.io", cloud.world()["crds"])

    def test_a_foreign_namespace_is_used_and_kept(self):
        cloud = Cloud(self, existing="theirs", namespace={"metadata": {"name": "burnin", "labels": {"team": "x"}}})
        ended, _, output = cloud.run("deploy", _EXISTING="theirs")
        self.assertIsNone(ended, output)
        kinds = [each["kind"] for each in cloud.world()["objects"]]
        self.assertNotIn("Namespace", kinds)
        self.assertIn("LocalQueue", kinds)

    def test_an_existing_queue_is_used_and_kept(self):
        cloud = Cloud(self, existing="theirs")
        ended, _, output = cloud.run("deploy", _EXISTING="theirs", _EXISTING_QUEUE="true", _QUEUE="research")
        self.assertIsNone(ended, output)
        self.assertEqual([each["kind"] for each in cloud.world()["objects"]], ["Namespace", "ServiceAccount", "DaemonSet"])
        self.assertEqual(cloud.read("cluster.json")["kubernetes"]["queue"], "research")
        self.assertTrue(cloud.calls("kubectl", "get", "localqueue", "research"))

    def test_another_toolkit_or_terraform_is_rejected_before_a_resource_is_created(self):
        for world, words in (({"toolkit": "v1.39.0"}, "gcluster: expected v1.82.0 (pins.json), found"),
                             ({"terraform": "1.11.4"}, "terraform: expected 1.12 or later, found '1.11.4'")):
            with self.subTest(words):
                cloud = Cloud(self, **world)
                self.assertEqual(self.failed(cloud, "check", words), 64)
                self.assertEqual(cloud.calls("gcluster", "create"), [])

    def test_a_cluster_without_a_dns_name_is_reached_by_its_address(self):
        cloud = Cloud(self, dns=False)
        self.assertIsNone(cloud.run("deploy")[0])
        self.assertEqual(cloud.read("cluster.json")["kubernetes"]["access"],
                         {"gke": {"server": "https://203.0.113.7", "certificate_authority": "QUJD"}})
        self.assertNotIn("--dns-endpoint", cloud.calls("gcloud", "container", "clusters", "get-credentials")[0])

    def test_missing_tools_are_reported(self):
        cloud = Cloud(self, tools=("gcloud", "kubectl"))
        self.assertEqual(self.failed(cloud, "check", "not on the PATH: helm, gcluster, terraform"), 64)

    def test_invalid_and_hostile_parameters_are_reported_before_any_call(self):
        cloud = Cloud(self)
        wrong = {"_NODES": ["1", "two", ""], "_RUN": ["run.1"], "_AUTHORIZED_CIDR": ["0.0.0.0/0", "me"], "_ZONE": ["europe-west4-a", "us-central1"],
                 "_KUEUE_CHART": ["oci://h.example/kueue:0.14.0"], "_GIB_IMAGE": ["h.example/gib:v1"], "_EXPIRES": ["", "soon"]}
        given = [{name: text} for name, texts in wrong.items() for text in texts]
        # All problems are reported together.
        given += [dict.fromkeys(PARAMETERS, text) for text in ("$(id)", 'a"b', "a\nb", "{{x}}", "a b", "--help", " ")]
        for each in given:
            with self.subTest(each):
                ended, status, output = cloud.run("deploy", **each)
                self.assertEqual((ended, status), ("check", 64), output)
                for name in each:
                    self.assertIn(f"{name}: expected", output)
        self.assertEqual(cloud.calls(), [])


class Destroy(unittest.TestCase):
    def remaining(self, cloud):
        gone = cloud.read("gone.json")
        jsonschema.validate(gone, json.loads((ROOT / "schemas/deployed/gone.json").read_text()))
        return gone["left"]

    def test_destroying_an_absent_deployment_succeeds(self):
        cloud = Cloud(self)
        self.assertIsNone(cloud.run("destroy")[0])
        self.assertEqual((self.remaining(cloud), cloud.calls("gcluster")), ([], []))

    def test_a_destroyed_cluster_leaves_no_resources(self):
        cloud = Cloud(self)
        cloud.run("deploy")
        self.assertIsNone(cloud.run("destroy")[0])
        self.assertEqual(self.remaining(cloud), [])
        # Repeated.
        self.assertIsNone(cloud.run("destroy")[0])
        self.assertEqual(self.remaining(cloud), [])

    def test_a_partial_cluster_is_destroyed(self):
        cloud = Cloud(self, faults={"quota": 1})
        self.assertEqual(cloud.run("deploy")[0], "make")
        self.assertEqual(cloud.world()["things"]["networks"][0][-6:], "-net-0")
        self.assertIsNone(cloud.run("destroy")[0])
        self.assertEqual((self.remaining(cloud), cloud.world()["things"]), ([], {}))

    def test_a_failed_deletion_is_retried(self):
        cloud = Cloud(self)
        cloud.run("deploy")
        cloud.change(faults={"destroy": 1})
        self.assertIsNone(cloud.run("destroy")[0])
        self.assertEqual(self.remaining(cloud), [])
        (deleted,) = cloud.calls("gcloud", "compute", "firewall-rules", "delete")
        self.assertIn("gke-x", deleted)

    def test_remaining_resources_are_reported_until_they_are_deleted(self):
        cloud = Cloud(self)
        cloud.run("deploy")
        cloud.change(faults={"destroy": 2})
        ended, _, output = cloud.run("destroy")
        self.assertIsNone(ended, output)
        remaining = self.remaining(cloud)
        self.assertTrue(any(each.startswith("cluster b") for each in remaining), remaining)
        self.assertIn("already being used by", cloud.read("gone.json")["evidence"])
        self.assertIsNone(cloud.run("destroy")[0])
        self.assertEqual(self.remaining(cloud), [])

    def test_a_tool_is_killed_at_its_timeout_and_its_output_reported(self):
        script = ("import sys; sys.path.insert(0, sys.argv[1]); import tools\n"
                  "try: tools.run('sh', '-c', 'echo begun; sleep 600 & wait', limit_s=1)\n"
                  "except tools.Failed as failed: print('FAILED', failed, failed.output)")
        output = subprocess.run([sys.executable, "-B", "-c", script, str(CLUSTER)], capture_output=True, text=True, timeout=30, check=True)
        self.assertIn("FAILED sh -c: timeout after 1 s begun", output.stdout)

    def test_without_a_complete_list_gone_json_is_not_written(self):
        cloud = Cloud(self, faults={"list networks": 1})
        ended, status, output = cloud.run("destroy")
        self.assertEqual((ended, status), ("destroy", 1))
        self.assertIn("permission: PERMISSION_DENIED", output)
        self.assertFalse((cloud.workspace / "gone.json").exists())

    def test_on_an_existing_cluster_a_failed_deletion_is_reported_and_retried(self):
        cloud = Cloud(self, existing="theirs")
        self.assertIsNone(cloud.run("deploy", _EXISTING="theirs")[0])
        cloud.change(faults={"delete": 1})
        self.assertIsNone(cloud.run("destroy", _EXISTING="theirs")[0])
        self.assertIn("clusterqueue c-1", self.remaining(cloud))
        self.assertIsNone(cloud.run("destroy", _EXISTING="theirs")[0])
        self.assertEqual(self.remaining(cloud), [])

    def test_a_manually_deleted_cluster_counts_as_destroyed(self):
        cloud = Cloud(self, existing="theirs")
        cloud.run("deploy", _EXISTING="theirs")
        cloud.change(existing=None)
        self.assertIsNone(cloud.run("destroy", _EXISTING="theirs")[0])
        self.assertEqual(self.remaining(cloud), [])


@unittest.skipUnless("BURNIN" in os.environ, "needs BURNIN, the path of the program")
class Configs(unittest.TestCase):
    def test_burnin_accepts_deploy_and_destroy(self):
        with tempfile.TemporaryDirectory() as folder:
            both = {name: {"config": str(CLUSTER / f"{name}.yaml"), "source": str(CLUSTER)} for name in ("deploy", "destroy")}
            workflow = pathlib.Path(folder) / "workflow.yaml"
            workflow.write_text(json.dumps({"name": "steps", "description": "The cluster only.", "cluster": {"rent": {"deployed": {
                **both, "slurm": {"nodes": 2, "shared_folder": "/x"}}}}}))
            output = subprocess.run([os.environ["BURNIN"], "check", str(workflow)], capture_output=True, text=True, check=False)
        self.assertEqual(output.returncode, 0, output.stdout + output.stderr)

    def test_burnin_provisions_and_releases_a_cluster(self):
        """Runs the configs with Burnin's runner and a lease shorter than the timeout of a deployment."""
        cloud = Cloud(self)
        steps = {name: {"config": str(CLUSTER / f"{name}.yaml"), "source": str(CLUSTER)} for name in ("deploy", "destroy")}
        steps["deploy"]["substitutions"] = PARAMETERS
        steps["destroy"]["substitutions"] = {key: PARAMETERS[key] for key in ("_PROJECT", "_REGION")}
        workflow = cloud.folder / "workflow.yaml"
        workflow.write_text(json.dumps({
            "name": "steps", "description": "The cluster only.",
            "cluster": {"rent": {"deployed": {**steps, "kubernetes": {"nodes": 2, "ranks_per_node": 8, "namespace": "burnin"}}}},
            "limits": {"cluster": "2m", "lease": "1h", "patience": "30s", "grace": "30s"}}))
        environment = {**cloud.environment, "PATH": f"{cloud.environment['PATH']}:{os.environ['PATH']}"}
        words = ["timeout", "--signal=KILL", "40", os.environ["BURNIN"], "run", str(workflow), "--data", str(cloud.folder / "data")]
        output = subprocess.run(words, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False).stdout
        self.assertEqual([call[1] for call in cloud.calls("gcluster")], ["--version", "create", "deploy", "destroy"], output)
        self.assertEqual(cloud.world()["things"], {}, output)
        self.assertEqual(cloud.world()["settings"]["vars"]["static_node_count"], 2)

    def test_the_blueprint_uses_only_its_own_modules(self):
        blueprint = yaml.safe_load((CLUSTER / "blueprint.yaml").read_text())
        known = set()
        for module in blueprint["deployment_groups"][0]["modules"]:
            self.assertTrue(set(module.get("use", [])) <= known, module["id"])
            known.add(module["id"])


if __name__ == "__main__":
    unittest.main()
