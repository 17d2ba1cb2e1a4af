"""The launcher as the chart renders it, in pods that are processes: what it calls, writes and says in the end."""

import json
import os
import shutil
import signal
import time
import unittest

from world import Pods

FILES = ["connectivity-test.log", "all_reduce.log", "all_reduce.json", "nccl-test-results.txt", "all_gather.log", "all_gather.json", "pod-logs/worker-1.log",
         "pod-logs/coordinator.log", "complete.json"]
# The procedure's table of NCCL settings (gpu-recipes, branch a4-early-access, training/a4/testbed/README.md).
PROCEDURE = {"NCCL_NET": "gIB", "NCCL_CROSS_NIC": "0", "NCCL_NET_GDR_LEVEL": "PIX", "NCCL_P2P_NET_CHUNKSIZE": "131072",
             "NCCL_NVLS_CHUNKSIZE": "524288", "NCCL_IB_ADAPTIVE_ROUTING": "1", "NCCL_IB_QPS_PER_CONNECTION": "4", "NCCL_IB_TC": "52",
             "NCCL_IB_FIFO_TC": "84", "NCCL_MIN_NCHANNELS": "32"}


class Launcher(unittest.TestCase):
    def pods(self, *args, **more):
        pods = Pods(*args, **more)
        self.addCleanup(pods.close)
        return pods

    def ended(self, pods, status, stage, words):
        """How it must end when it fails: its status everywhere, why, and the marker last."""
        marker = pods.marker()
        self.assertEqual((marker["exit_status"], marker["stage"]), (status, stage), pods.said())
        self.assertIn(words, marker["reason"])
        self.assertEqual(pods.written()[-1], "complete.json")
        self.assertIn(words, (pods.output / "pod-logs/coordinator.log").read_text())
        for index in range(1, pods.nodes):
            if index in pods.started:
                self.assertEqual(pods.started[index].wait(timeout=20), 0, pods.said(index))

    def healthy(self, pods):
        self.assertEqual(pods.play(), 0, pods.said())
        self.assertEqual(pods.started[1].wait(timeout=20), 0, pods.said(1))
        written = pods.written()
        self.assertEqual(sorted(written), sorted(FILES))
        self.assertEqual(written[-2:], ["pod-logs/coordinator.log", "complete.json"])
        return pods.marker()

    def test_all_is_well(self):
        pods = self.pods()
        marker = self.healthy(pods)
        self.assertEqual((marker["exit_status"], marker["stage"], marker["reason"]), (0, "done", None))
        self.assertEqual(sorted(marker["files"]), sorted(set(FILES) - {"complete.json"}))
        for name, file in marker["files"].items():
            self.assertEqual((pods.output / name).stat().st_size, file["bytes"], name)
        self.assertEqual([pod["node"] for pod in marker["pods"]], ["gke-node-0", "gke-node-1"])
        # Connectivity first, then the two tests, each over all ranks and by the keys of this release.
        runs = [call["args"] for call in pods.calls("mpirun")]
        self.assertEqual([os.path.basename(words[words.index("oob_tcp_if_include") + 2]) for words in runs],
                         ["hostname", "bash", "bash"])
        for words in runs:
            self.assertEqual(words[words.index("-np") + 1], "16")
            self.assertEqual(words[words.index("plm_rsh_agent") + 1], f"ssh -F {pods.folder}/run/0/ssh_config")
        hosts = (pods.folder / "run/0/hostfile").read_text().splitlines()
        self.assertEqual(hosts, [f"bed-workload-0-{n}.bed.tests.svc.cluster.local slots=8" for n in (0, 1)])
        for name in ("all_reduce", "all_gather"):
            (call,) = pods.calls(f"{name}_perf")
            self.assertEqual(call["args"][:14], ["-b", str(2 << 20), "-e", str(16 << 30), "-f", "2", "-g", "1", "-n", "20", "-w", "10",
                                                 "-c", "1"])
            # gIB's own settings, ours over them.
            self.assertEqual(call["env"]["NCCL_FROM_GIB"], "1")
            self.assertEqual((call["env"]["NCCL_NET"], call["env"]["NCCL_SOCKET_IFNAME"]), ("gIB", "eth0"))
            self.assertTrue(call["env"]["LD_LIBRARY_PATH"].startswith(f"{pods.folder}/gib/lib64"))
            # The procedure's ten, and the image's libraries behind gIB's.
            self.assertEqual({key: call["env"].get(key) for key in PROCEDURE}, PROCEDURE)
            self.assertEqual(call["env"]["LD_LIBRARY_PATH"].split(":")[-1], "/image/lib")
            self.assertEqual(json.loads((pods.output / f"{name}.json").read_text())["program"], f"{name}_perf")
            efficiency = marker["efficiency"][name]
            permitted = 750 if name == "all_reduce" else 400
            self.assertEqual((efficiency["permitted_busbw"], efficiency["at_bytes"]), (permitted, 16 << 30))
            self.assertEqual(efficiency["efficiency_percent"], round(100 * efficiency["best_busbw"] / permitted, 1))
            self.assertIn(f"efficiency {efficiency['efficiency_percent']} %", pods.said())
        results = (pods.output / "nccl-test-results.txt").read_text()
        self.assertEqual(results.count("# Avg bus bandwidth"), 2)
        self.assertEqual((pods.output / "connectivity-test.log").read_text().split().count("bed-workload-0-1"), 8)
        self.assertIn("pod 1 is bed-workload-0-1-abcde on node gke-node-1", (pods.output / "pod-logs/worker-1.log").read_text())
        # What the gate reads with Burnin.
        if "TESTBED_LOGS" in os.environ:
            shutil.copytree(pods.output, os.environ["TESTBED_LOGS"])

    @unittest.skipUnless(os.path.exists("/usr/sbin/sshd") and os.geteuid() == 0, "a real sshd needs root")
    def test_pods_speak_by_a_real_ssh_with_the_keys_of_the_release(self):
        pods = self.pods(real_ssh=True)
        os.makedirs("/run/sshd", exist_ok=True)
        self.healthy(pods)
        self.assertIn("Accepted publickey for root", (pods.folder / "run/1/sshd.log").read_text())
        # What ssh starts finds the image's programs and libraries.
        self.assertIn('SetEnv "PATH=', (pods.folder / "run/1/sshd_config").read_text())
        self.assertIn('"LD_LIBRARY_PATH=/image/lib"', (pods.folder / "run/1/sshd_config").read_text())

    @unittest.skipUnless(os.path.exists("/usr/sbin/sshd") and os.geteuid() == 0, "a real sshd needs root")
    def test_another_releases_pod_is_not_let_in_and_not_believed(self):
        ours, theirs = self.pods(real_ssh=True, reach_s=2), self.pods(real_ssh=True)
        os.makedirs("/run/sshd", exist_ok=True)
        theirs.start(1)
        ours.ports[1] = theirs.ports[1]
        self.assertEqual(ours.play(workers=[]), 80, ours.said())
        self.ended(ours, 80, "reach", "Host key verification failed")

    def test_connectivity_fails(self):
        pods = self.pods()
        self.assertEqual(pods.play(connectivity=213), 213)
        self.ended(pods, 213, "connectivity", "mpirun failed with exit status 213")
        self.assertEqual(len(pods.calls("mpirun")), 1)
        self.assertEqual(pods.written()[0], "connectivity-test.log")
        self.assertNotIn("nccl-test-results.txt", pods.written())

    def test_mpi_does_not_span_all_pods(self):
        pods = self.pods()
        self.assertEqual(pods.play(spans=1), 81)
        self.ended(pods, 81, "connectivity", "found bed-workload-0-1 0 times")

    def test_all_reduce_ends_with_7(self):
        pods = self.pods()
        self.assertEqual(pods.play(all_reduce=7), 7)
        self.ended(pods, 7, "all_reduce", "mpirun failed with exit status 7")
        self.assertIn("Test NCCL failure", (pods.output / "nccl-test-results.txt").read_text())
        self.assertEqual(pods.calls("all_gather_perf"), [])

    def test_sockets_in_place_of_gib(self):
        pods = self.pods()
        self.assertEqual(pods.play(network="Socket"), 82)
        self.ended(pods, 82, "all_reduce", "expected gIB alone, found Socket in use")

    def test_a_table_that_stops_early_with_status_0(self):
        pods = self.pods()
        self.assertEqual(pods.play(short=True), 83)
        self.ended(pods, 83, "all_reduce", "found no row for 17179869184 bytes")

    def test_a_worker_is_never_reached(self):
        pods = self.pods(nodes=3, reach_s=1)
        begun = time.monotonic()
        self.assertEqual(pods.play(workers=[1]), 80)
        self.assertLess(time.monotonic() - begun, 15)
        self.ended(pods, 80, "reach", "bed-workload-0-2.bed.tests.svc.cluster.local: ssh: connect to host")
        self.assertEqual(pods.calls("mpirun"), [])
        self.assertIn("pod-logs/worker-1.log", pods.written())

    def test_a_worker_has_seven_gpus(self):
        pods = self.pods()
        pods.start(1, gpus=7)
        self.assertEqual(pods.start(0).wait(timeout=60), 85)
        self.ended(pods, 85, "reach", "pod 1 (bed-workload-0-1-abcde on node gke-node-1): expected 8 GPUs, found 7")

    def test_an_ecc_error_is_named(self):
        pods = self.pods()
        pods.start(1)
        while not (pods.folder / "run/1/self.json").exists():
            time.sleep(0.02)
        self.assertEqual(pods.start(0, ecc=3).wait(timeout=60), 85)
        self.ended(pods, 85, "reach", "GPU 0 (00000000:00:00.0): uncorrected ECC errors: 3")

    def test_a_test_that_hangs_is_ended(self):
        pods = self.pods(test_s=1)
        self.assertEqual(pods.play(hang=True), 124)
        self.ended(pods, 124, "all_reduce", "mpirun timed out")

    def test_gib_is_not_in_the_pod(self):
        pods = self.pods()
        (pods.folder / "gib/scripts/set_nccl_env.sh").unlink()
        self.assertEqual(pods.play(), 88)
        self.ended(pods, 88, "all_reduce", "mpirun failed with exit status 88")

    def test_stopped_from_outside(self):
        pods = self.pods()
        pods.start(1)
        coordinator = pods.start(0, hang=True)
        while not pods.calls("all_reduce_perf") and coordinator.poll() is None:
            time.sleep(0.02)
        coordinator.send_signal(signal.SIGTERM)
        self.assertEqual(coordinator.wait(timeout=20), 143)
        marker = pods.marker()
        self.assertEqual((marker["exit_status"], marker["stage"]), (143, "all_reduce"))
        self.assertIn("connectivity-test.log", marker["files"])

    def test_what_an_earlier_run_wrote_stays(self):
        pods = self.pods()
        pods.output.mkdir(parents=True)
        (pods.output / "complete.json").write_text("theirs")
        self.assertEqual(pods.play(), 84)
        self.assertEqual((pods.output / "complete.json").read_text(), "theirs")
        self.assertEqual(pods.calls("mpirun"), [])

    def test_the_output_cannot_be_written(self):
        pods = self.pods()
        pods.output.parent.mkdir()
        pods.output.write_text("a file where the folder should be")
        self.assertEqual(pods.play(workers=[]), 84)
        self.assertIn("testbed-logs", pods.said())

    def test_an_expired_run_does_not_begin(self):
        pods = self.pods(expires=int(time.time()) - 5)
        self.assertEqual(pods.play(), 86)
        self.assertEqual(pods.started[1].wait(timeout=20), 86)
        self.assertEqual(pods.calls(), [])

    def test_a_worker_that_nobody_ends_ends_itself(self):
        pods = self.pods(deadline_s=1)
        self.assertEqual(pods.start(1).wait(timeout=20), 87)

    def test_pods_are_kept_until_they_are_released_or_stopped(self):
        for release in (lambda pods: (pods.folder / "run/0/release").touch(), lambda pods: pods.started[0].terminate()):
            pods = self.pods(keep_s=3600)
            pods.start(1)
            coordinator = pods.start(0)
            while "kept for 60 minutes" not in pods.said() and coordinator.poll() is None:
                time.sleep(0.02)
            self.assertEqual(pods.marker()["exit_status"], 0)
            self.assertIsNone(pods.started[1].poll())
            release(pods)
            self.assertEqual(coordinator.wait(timeout=20), 0)
            self.assertEqual(pods.started[1].wait(timeout=20), 0)

    def test_pods_are_kept_no_longer_than_said(self):
        pods = self.pods(keep_s=1)
        self.assertEqual(pods.play(all_reduce=7), 7)
        self.assertEqual(pods.started[1].wait(timeout=20), 0)

    def test_without_a_bucket_standard_output_tells_the_files(self):
        pods = self.pods(told=True)
        self.assertEqual(pods.play(), 0)
        said = pods.said()
        for name in ("all_reduce.json", "pod-logs/worker-1.log", "complete.json"):
            content = (pods.output / name).read_text()
            self.assertIn(f"=== {name} {len(content)} bytes\n{content}\n=== end\n", said)
        self.assertEqual(said.count("# Avg bus bandwidth"), 2)


if __name__ == "__main__":
    unittest.main()
