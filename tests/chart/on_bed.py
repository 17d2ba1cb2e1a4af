"""Tests the A4 test bed on a real Kubernetes: its steps create queue, topology and installer in an existing cluster and remove
them; Helm's engine installs its chart, JobSet and Kueue place it, its launcher runs in real pods with real sshd and mpirun.
Simulated: the GPUs, gIB, NCCL, gcloud. `.ci/kubernetes.sh` starts the bed.

    python -m unittest on_bed"""

import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import time
import unittest

import helm_python as helm

from test_cluster import Cloud
from world import FLOW, ROOT, merged

BED = pathlib.Path(os.environ["BURNIN_KUBERNETES_BED"])
NAMESPACE = "burnin"
SMALL = {"minBytes": "1K", "maxBytes": "1M", "stepFactor": 4, "iterations": 5, "warmupIterations": 1}


def kubectl(*words, given=None):
    return subprocess.run(["kubectl", "--kubeconfig", BED / "admin", "--namespace", NAMESPACE, *words], check=True,
                          capture_output=True, text=True, input=given).stdout


def objects(kinds, labels=""):
    return json.loads(kubectl("get", kinds, "--output", "json", *(["--selector", labels] if labels else [])))["items"]


def namespace_objects():
    return kubectl("get", "jobsets,jobs,pods,services,secrets,configmaps,workloads", "--output", "name").split()


def until(what, holds, seconds=120):
    end = time.monotonic() + seconds
    while not (found := holds()):
        if time.monotonic() > end:
            raise AssertionError(f"timeout after {seconds} s, expected: {what}; objects: {namespace_objects()}")
        time.sleep(0.2)
    return found


def image(name):
    return (BED / f"image-{name}").read_text().strip()


def add_gpus():
    subprocess.run(["bash", ROOT / "tests/testbed/kubernetes/gpus.sh"], env={**os.environ, "BED_DIR": str(BED)}, check=True)


def values(**more):
    """Values for a short test."""
    return {"run": "r-1", "cluster": "c-1", "expires": int(time.time()) + 1800, "image": image("mpi"), "gpus": 16,
            "network": {"gib": {"image": image("gib")}}, "tests": {"all_reduce": SMALL, "all_gather": SMALL},
            "limits": {"reachSeconds": 60, "connectivitySeconds": 60, "testSeconds": 90, "deadlineSeconds": 300}, **more}


class Chart(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        add_gpus()
        cls.before = set(namespace_objects())

    def setUp(self):
        self.helm = helm.Config(kubeconfig_path=str(BED / "admin"), namespace=NAMESPACE)
        self.addCleanup(self.helm.close)

    def install(self, more=None):
        self.addCleanup(self.gone)
        with helm.Chart.load(str(FLOW / "chart")) as chart:
            settings = merged(values(queue="bed", topology={"level": "bed/block"}), more or {})
            self.helm.install(chart, "bed", settings, namespace=NAMESPACE)

    def gone(self):
        """Uninstalls the chart; no objects may remain."""
        self.helm.uninstall("bed", ignore_not_found=True)
        until("no objects remain", lambda: set(namespace_objects()) == self.before, 180)

    def ended(self):
        return until("the JobSet ends", lambda: objects("jobset")[0].get("status", {}).get("terminalState"), 240)

    def pods(self):
        """Pods by index."""
        found = objects("pods", "jobset.sigs.k8s.io/jobset-name=bed")
        return {int(pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"]): pod for pod in found}

    def logs(self, index=0, container="workload"):
        return kubectl("logs", self.pods()[index]["metadata"]["name"], "--container", container)

    def status(self):
        state = self.pods()[0]["status"]["containerStatuses"][0]["state"]
        return state["terminated"]["exitCode"]

    def printed_files(self, logs):
        """Files that the coordinator printed, by name."""
        files, at = {}, 0
        data = logs.encode()
        for found in re.finditer(rb"=== (\S+) (\d+) bytes\n", data):
            if found.start() >= at:
                at = found.end() + int(found.group(2))
                files[found.group(1).decode()] = data[found.end():at]
        return files

    def test_the_chart_runs_on_real_pods(self):
        self.install()
        admitted = until("Kueue admits the workload", lambda: [
            each for load in objects("workloads") for each in load.get("status", {}).get("conditions", [])
            if (each["type"], each["status"]) == ("Admitted", "True")])
        self.assertTrue(admitted)
        state = self.ended()
        output = self.logs()
        self.assertEqual(state, "Completed", output)
        # The two pods run on the two nodes of one block.
        marker = json.loads(self.printed_files(output)["complete.json"])
        self.assertEqual((marker["exit_status"], marker["stage"], marker["reason"]), (0, "done", None))
        self.assertEqual([(pod["index"], pod["hostname"]) for pod in marker["pods"]], [(0, "bed-workload-0-0"), (1, "bed-workload-0-1")])
        self.assertEqual({pod["node"] for pod in marker["pods"]}, {"n1", "n2"})
        self.assertEqual(sorted(marker["files"]), ["all_gather.json", "all_gather.log", "all_reduce.json", "all_reduce.log", "connectivity-test.log",
                                                   "nccl-test-results.txt", "pod-logs/coordinator.log", "pod-logs/worker-1.log"])
        for name, content in self.printed_files(output).items():
            if name != "complete.json":
                self.assertEqual(hashlib.sha256(content).hexdigest(), marker["files"][name]["sha256"], name)
        self.assertIn("bed-workload-0-1", self.printed_files(output)["pod-logs/worker-1.log"].decode())
        for name in ("all_reduce", "all_gather"):
            measured = json.loads(self.printed_files(output)[f"{name}.json"])
            self.assertEqual((measured["program"], measured["ranks"], len(measured["sizes"])), (f"{name}_perf", 16, 6))
        # Burnin parses the pod's log.
        read = subprocess.run([os.environ["BURNIN"], "parse", "--output", "json", "-"], input=output, check=True, capture_output=True, text=True)
        tables = [(table["collective"], table["ranks"], len(table["rows"]), table["ended"]) for table in json.loads(read.stdout)["tables"]]
        self.assertEqual(tables, [("all_reduce", 16, 6, "complete"), ("all_gather", 16, 6, "complete")])
        # The worker has also ended, so that no pod uses a GPU.
        until("no pod runs", lambda: all(pod["status"]["phase"] in ("Succeeded", "Failed") for pod in self.pods().values()))

    def test_sockets_instead_of_gib_are_reported(self):
        self.install({"network": {"gib": {"image": image("gib-sockets")}}})
        self.assertEqual(self.ended(), "Failed")
        self.assertEqual(self.status(), 82)
        marker = json.loads(self.printed_files(self.logs())["complete.json"])
        self.assertEqual((marker["exit_status"], marker["stage"], marker["reason"]),
                         (82, "all_reduce", "expected gIB only, found Socket in use"))

    def test_an_installer_without_effect_is_reported(self):
        self.install({"network": {"gib": {"image": image("gib-empty")}}})
        self.assertEqual(self.ended(), "Failed")
        self.assertIn("the installer did not create scripts/set_nccl_env.sh", "".join(self.logs(index, "gib") for index in self.pods()))

    def test_a_deleted_worker_fails_the_job(self):
        # 1000 iterations: the worker is deleted before the benchmark ends.
        self.install({"tests": {"all_reduce": {**SMALL, "maxBytes": "4M", "iterations": 1000}}})
        until("the test runs", lambda: len(self.pods()) == 2 and self.pods()[0]["status"]["phase"] == "Running" and "all_reduce_perf" in self.logs())
        kubectl("delete", "pod", self.pods()[1]["metadata"]["name"], "--grace-period=0", "--force")
        self.assertEqual(self.ended(), "Failed")

    def test_kept_pods_are_released(self):
        self.install({"debug": {"keepMinutes": 30}})
        until("the pods are kept", lambda: 0 in self.pods() and self.pods()[0]["status"]["phase"] == "Running" and "kept for 30 minutes" in self.logs())
        kubectl("exec", self.pods()[0]["metadata"]["name"], "--", "touch", "/run/testbed/release")
        self.assertEqual(self.ended(), "Completed")

    def test_kueue_reports_an_unsatisfiable_topology(self):
        self.install({"gpus": 24, "topology": {"request": "required"}})
        why = until("Kueue reports the reason", lambda: [
            each["message"] for load in objects("workloads") for each in load.get("status", {}).get("conditions", [])
            if each["type"] == "QuotaReserved" and each["status"] == "False"])
        self.assertRegex(why[0], "topology .*fit|fits only 2 out of 3")
        self.assertEqual(self.pods(), {})


class Steps(unittest.TestCase):
    """Real: kubectl, the API server, Kueue, JobSet, the DaemonSet's pods. Simulated: the deployments of the controllers, which
    are processes here."""

    def setUp(self):
        add_gpus()
        for controllers in ("jobset-system", "kueue-system"):
            kubectl("create", "deployment", "controller", "--image=none", "--namespace", controllers)
            self.addCleanup(kubectl, "delete", "deployment", "controller", "--namespace", controllers)
            kubectl("patch", "deployment", "controller", "--namespace", controllers, "--subresource=status", "--type=merge", "--patch",
                    json.dumps({"status": {"conditions": [{"type": "Available", "status": "True"}]}}))
        group, plural = "networking.gke.io", "networks"
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"{plural}.{group}"},
               "spec": {"group": group, "scope": "Cluster", "names": {"plural": plural, "singular": "network", "kind": "Network"},
                        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}]}}
        kubectl("apply", "--server-side", "--filename", "-", given=json.dumps(crd))
        self.addCleanup(kubectl, "delete", "crd", f"{plural}.{group}")
        kubectl("wait", "--for=condition=Established", f"crd/{plural}.{group}", "--timeout=30s")
        networks = [{"apiVersion": f"{group}/v1", "kind": "Network", "metadata": {"name": f"rdma-{n}"}} for n in range(8)]
        kubectl("apply", "--server-side", "--filename", "-", given=json.dumps({"apiVersion": "v1", "kind": "List", "items": networks}))

    def test_an_existing_cluster_is_prepared_used_and_restored(self):
        cloud = Cloud(self, tools=("gcloud", "helm"), existing="bed", kubeconfig=(BED / "admin").read_text())
        (cloud.folder / "bin" / "kubectl").symlink_to(shutil.which("kubectl"))
        cloud.environment["TESTBED_POLL_S"] = "0.5"
        parameters = {"_EXISTING": "bed", "_NAMESPACE": "testbed", "_GIB_IMAGE": image("gib"), "_READY_SECONDS": "50"}
        self.addCleanup(cloud.run, "destroy", **parameters)
        before = kubectl("get", "namespaces,clusterqueues,resourceflavors,topologies", "--output", "name")
        ended, _, output = cloud.run("deploy", **parameters)
        self.assertIsNone(ended, output)
        self.assertEqual([node["name"] for node in cloud.read("cluster.json")["nodes"]], ["n1", "n2"])
        installed = cloud.read("kubernetes.json")
        # The chart with its defaults matches the created objects.
        with helm.Config(kubeconfig_path=str(BED / "admin"), namespace=installed["namespace"]) as config, helm.Chart.load(str(FLOW / "chart")) as chart:
            wanted = values(queue=installed["queue"], serviceAccount=installed["service_account"], debug={"keepMinutes": 30})
            config.install(chart, "bed", wanted, namespace=installed["namespace"])

        def of_run(kind):
            return json.loads(kubectl("get", kind, "--namespace", installed["namespace"], "--selector", "burnin-run=r-1", "--output", "json"))["items"]

        def logs_of(pod):
            return kubectl("logs", pod["metadata"]["name"], "--namespace", installed["namespace"], "--container", "workload")

        first = until("the first pod runs", lambda: [
            pod for pod in of_run("pods") if pod["metadata"]["labels"].get("batch.kubernetes.io/job-completion-index") == "0"
            and pod["status"]["phase"] == "Running"])[0]
        until("all tests have run", lambda: "kept for 30 minutes" in logs_of(first), 200)
        self.assertIn("all tests have run", logs_of(first))
        self.assertEqual({pod["spec"]["nodeName"] for pod in of_run("pods") if "app.kubernetes.io/instance" in pod["metadata"]["labels"]}, {"n1", "n2"})
        # A teardown also removes all objects during the 30 minutes for which ended pods are kept.
        ended, _, output = cloud.run("destroy", **parameters)
        self.assertIsNone(ended, output)
        self.assertEqual(cloud.read("gone.json")["left"], [], output)
        self.assertEqual(kubectl("get", "namespaces,clusterqueues,resourceflavors,topologies", "--output", "name"), before)


if __name__ == "__main__":
    unittest.main()
