"""Tests the rendered launcher in pods simulated by processes: its calls, output files and exit statuses."""

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

    def check_failure(self, pods, status, stage, words):
        """Checks a failed run: status, stage and reason in the marker, which is written last."""
        marker = pods.marker()
        self.assertEqual((marker["exit_status"], marker["stage"]), (status, stage), pods.output_of())
        self.assertIn(words, marker["reason"])
        self.assertEqual(pods.written()[-1], "complete.json")
        self.assertIn(words, (pods.output / "pod-logs/coordinator.log").read_text())
        for index in range(1, pods.nodes):
            if index in pods.started:
                self.assertEqual(pods.started[index].wait(timeout=60), 0, pods.output_of(index))

    def healthy(self, pods):
        self.assertEqual(pods.run(), 0, pods.output_of())
        self.assertEqual(pods.started[1].wait(timeout=60), 0, pods.output_of(1))
        written = pods.written()
        self.assertEqual(sorted(written), sorted(FILES))
        self.assertEqual(written[-2:], ["pod-logs/coordinator.log", "complete.json"])
        return pods.marker()

    def test_both_benchmarks_run_after_the_connectivity_test(self):
        pods = self.pods()
        marker = self.healthy(pods)
        self.assertEqual((marker["exit_status"], marker["stage"], marker["reason"]), (0, "done", None))
        self.assertEqual(sorted(marker["files"]), sorted(set(FILES) - {"complete.json"}))
        for name, file in marker["files"].items():
            self.assertEqual((pods.output / name).stat().st_size, file["bytes"], name)
        self.assertEqual([pod["node"] for pod in marker["pods"]], ["gke-node-0", "gke-node-1"])
        # mpirun runs the connectivity test, then the two tests, each over all ranks and with this release's ssh keys.
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
            # The chart's settings override gIB's settings.
            self.assertEqual(call["env"]["NCCL_FROM_GIB"], "1")
            self.assertEqual((call["env"]["NCCL_NET"], call["env"]["NCCL_SOCKET_IFNAME"]), ("gIB", "eth0"))
            self.assertTrue(call["env"]["LD_LIBRARY_PATH"].startswith(f"{pods.folder}/gib/lib64"))
            # The program has the procedure's ten settings, and gIB's libraries precede the image's.
            self.assertEqual({key: call["env"].get(key) for key in PROCEDURE}, PROCEDURE)
            self.assertEqual(call["env"]["LD_LIBRARY_PATH"].split(":")[-1], "/image/lib")
            self.assertEqual(json.loads((pods.output / f"{name}.json").read_text())["program"], f"{name}_perf")
            efficiency = marker["efficiency"][name]
            permitted = 750 if name == "all_reduce" else 400
            self.assertEqual((efficiency["permitted_busbw"], efficiency["at_bytes"]), (permitted, 16 << 30))
            self.assertEqual(efficiency["efficiency_percent"], round(100 * efficiency["best_busbw"] / permitted, 1))
            self.assertIn(f"efficiency {efficiency['efficiency_percent']} %", pods.output_of())
        results = (pods.output / "nccl-test-results.txt").read_text()
        self.assertEqual(results.count("# Avg bus bandwidth"), 2)
        self.assertEqual((pods.output / "connectivity-test.log").read_text().split().count("bed-workload-0-1"), 8)
        self.assertIn("pod 1 is bed-workload-0-1-abcde on node gke-node-1", (pods.output / "pod-logs/worker-1.log").read_text())
        # The gate parses these logs with Burnin.
        if "TESTBED_LOGS" in os.environ:
            shutil.copytree(pods.output, os.environ["TESTBED_LOGS"])

    @unittest.skipUnless(os.path.exists("/usr/sbin/sshd") and os.geteuid() == 0, "a real sshd needs root")
    def test_pods_connect_by_real_ssh_with_the_releases_keys(self):
        pods = self.pods(real_ssh=True)
        os.makedirs("/run/sshd", exist_ok=True)
        self.healthy(pods)
        self.assertIn("Accepted publickey for root", (pods.folder / "run/1/sshd.log").read_text())
        # Programs started by ssh find the image's programs and libraries.
        self.assertIn('SetEnv "PATH=', (pods.folder / "run/1/sshd_config").read_text())
        self.assertIn('"LD_LIBRARY_PATH=/image/lib"', (pods.folder / "run/1/sshd_config").read_text())

    @unittest.skipUnless(os.path.exists("/usr/sbin/sshd") and os.geteuid() == 0, "a real sshd needs root")
    def test_a_pod_of_another_release_is_rejected(self):
        ours, theirs = self.pods(real_ssh=True, reach_s=2), self.pods(real_ssh=True)
        os.makedirs("/run/sshd", exist_ok=True)
        theirs.start(1)
        ours.ports[1] = theirs.ports[1]
        self.assertEqual(ours.run(workers=[]), 80, ours.output_of())
        self.check_failure(ours, 80, "reach", "Host key verification failed")

    def test_a_launcher_of_the_user_replaces_the_tests(self):
        script = 'echo "$TESTBED_RANKS ranks on $TESTBED_NODES nodes"\n"$TESTBED_MPIRUN" bash "$TESTBED_RANK" hostname\nexit $STATUS\n'
        pods = self.pods(custom=script.replace("$STATUS", "0"))
        self.assertEqual(pods.run(), 0, pods.output_of())
        marker = pods.marker()
        self.assertEqual((marker["exit_status"], marker["stage"], marker["efficiency"]), (0, "done", {}))
        self.assertEqual(sorted(marker["files"]), ["connectivity-test.log", "custom.log", "pod-logs/coordinator.log", "pod-logs/worker-1.log"])
        log = (pods.output / "custom.log").read_text()
        self.assertTrue(log.startswith("16 ranks on 2 nodes\n"), log)
        connectivity, own = [call["args"] for call in pods.calls("mpirun")]
        self.assertEqual(own[: connectivity.index("hostname")], connectivity[: connectivity.index("hostname")])
        self.assertEqual((own[-3], own[-1], len(pods.calls("all_reduce_perf"))), ("bash", "hostname", 0))
        self.check_failure(failing := self.pods(custom=script.replace("$STATUS", "7")), failing.run(), "custom", "the launcher failed with exit status 7")
        self.assertEqual(failing.marker()["exit_status"], 7)

    def test_a_failed_connectivity_test_is_reported(self):
        pods = self.pods()
        self.assertEqual(pods.run(connectivity=213), 213)
        self.check_failure(pods, 213, "connectivity", "mpirun failed with exit status 213")
        self.assertEqual(len(pods.calls("mpirun")), 1)
        self.assertEqual(pods.written()[0], "connectivity-test.log")
        self.assertNotIn("nccl-test-results.txt", pods.written())

    def test_an_incomplete_mpi_world_is_reported(self):
        pods = self.pods()
        self.assertEqual(pods.run(spans=1), 81)
        self.check_failure(pods, 81, "connectivity", "found bed-workload-0-1 0 times")

    def test_the_exit_status_of_all_reduce_is_returned(self):
        pods = self.pods()
        self.assertEqual(pods.run(all_reduce=7), 7)
        self.check_failure(pods, 7, "all_reduce", "mpirun failed with exit status 7")
        self.assertIn("Test NCCL failure", (pods.output / "nccl-test-results.txt").read_text())
        self.assertEqual(pods.calls("all_gather_perf"), [])

    def test_sockets_instead_of_gib_are_reported(self):
        pods = self.pods()
        self.assertEqual(pods.run(network="Socket"), 82)
        self.check_failure(pods, 82, "all_reduce", "expected gIB only, found Socket in use")

    def test_a_truncated_table_with_status_0_is_reported(self):
        pods = self.pods()
        self.assertEqual(pods.run(short=True), 83)
        self.check_failure(pods, 83, "all_reduce", "found no row for 17179869184 bytes")

    def test_an_unreachable_worker_is_reported(self):
        pods = self.pods(nodes=3, reach_s=1)
        started = time.monotonic()
        self.assertEqual(pods.run(workers=[1]), 80)
        self.assertLess(time.monotonic() - started, 15)
        self.check_failure(pods, 80, "reach", "bed-workload-0-2.bed.tests.svc.cluster.local: ssh: connect to host")
        self.assertEqual(pods.calls("mpirun"), [])
        self.assertIn("pod-logs/worker-1.log", pods.written())

    def test_a_worker_with_seven_gpus_is_reported(self):
        pods = self.pods()
        pods.start(1, gpus=7)
        self.assertEqual(pods.start(0).wait(timeout=60), 85)
        self.check_failure(pods, 85, "reach", "pod 1 (bed-workload-0-1-abcde on node gke-node-1): expected 8 GPUs, found 7")

    def test_an_ecc_error_is_reported(self):
        pods = self.pods()
        pods.start(1)
        while not (pods.folder / "run/1/self.json").exists():
            time.sleep(0.02)
        self.assertEqual(pods.start(0, ecc=3).wait(timeout=60), 85)
        self.check_failure(pods, 85, "reach", "GPU 0 (00000000:00:00.0): uncorrected ECC errors: 3")

    def test_a_hanging_test_times_out(self):
        pods = self.pods(test_s=1)
        self.assertEqual(pods.run(hang=True), 124)
        self.check_failure(pods, 124, "all_reduce", "mpirun timed out")

    def test_a_pod_without_gib_is_reported(self):
        pods = self.pods()
        (pods.folder / "gib/scripts/set_nccl_env.sh").unlink()
        self.assertEqual(pods.run(), 88)
        self.check_failure(pods, 88, "all_reduce", "mpirun failed with exit status 88")

    def test_sigterm_ends_the_run_with_143(self):
        pods = self.pods()
        pods.start(1)
        coordinator = pods.start(0, hang=True)
        while not pods.calls("all_reduce_perf") and coordinator.poll() is None:
            time.sleep(0.02)
        coordinator.send_signal(signal.SIGTERM)
        self.assertEqual(coordinator.wait(timeout=60), 143)
        marker = pods.marker()
        self.assertEqual((marker["exit_status"], marker["stage"]), (143, "all_reduce"))
        self.assertIn("connectivity-test.log", marker["files"])

    def test_the_output_of_an_earlier_run_is_kept(self):
        pods = self.pods()
        pods.output.mkdir(parents=True)
        (pods.output / "complete.json").write_text("theirs")
        self.assertEqual(pods.run(), 84)
        self.assertEqual((pods.output / "complete.json").read_text(), "theirs")
        self.assertEqual(pods.calls("mpirun"), [])

    def test_an_unwritable_output_is_reported(self):
        pods = self.pods()
        pods.output.parent.mkdir()
        pods.output.write_text("a file where the folder should be")
        self.assertEqual(pods.run(workers=[]), 84)
        self.assertIn("testbed-logs", pods.output_of())

    def test_an_expired_run_does_not_start(self):
        pods = self.pods(expires=int(time.time()) - 5)
        self.assertEqual(pods.run(), 86)
        self.assertEqual(pods.started[1].wait(timeout=60), 86)
        self.assertEqual(pods.calls(), [])

    def test_a_worker_ends_at_the_deadline(self):
        pods = self.pods(deadline_s=1)
        self.assertEqual(pods.start(1).wait(timeout=60), 87)

    def test_pods_are_kept_until_they_are_released_or_terminated(self):
        for release in (lambda pods: (pods.folder / "run/0/release").touch(), lambda pods: pods.started[0].terminate()):
            pods = self.pods(keep_s=3600)
            pods.start(1)
            coordinator = pods.start(0)
            while "kept for 60 minutes" not in pods.output_of() and coordinator.poll() is None:
                time.sleep(0.02)
            self.assertEqual(pods.marker()["exit_status"], 0)
            self.assertIsNone(pods.started[1].poll())
            release(pods)
            self.assertEqual(coordinator.wait(timeout=60), 0)
            self.assertEqual(pods.started[1].wait(timeout=60), 0)

    def test_kept_pods_end_after_the_maximum_time(self):
        pods = self.pods(keep_s=1)
        self.assertEqual(pods.run(all_reduce=7), 7)
        self.assertEqual(pods.started[1].wait(timeout=60), 0)

    def test_without_a_bucket_files_are_printed_to_standard_output(self):
        pods = self.pods(told=True)
        self.assertEqual(pods.run(), 0)
        output = pods.output_of()
        for name in ("all_reduce.json", "pod-logs/worker-1.log", "complete.json"):
            content = (pods.output / name).read_text()
            self.assertIn(f"=== {name} {len(content)} bytes\n{content}\n=== end\n", output)
        self.assertEqual(output.count("# Avg bus bandwidth"), 2)


if __name__ == "__main__":
    unittest.main()
