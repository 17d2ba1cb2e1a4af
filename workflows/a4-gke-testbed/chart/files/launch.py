"""Program of every pod of the test bed. Pod 0 is the coordinator: it connects to the others, checks MPI, runs the tests, checks
the transport, writes testbed-logs/ and, last, complete.json. The other pods are workers: they serve ssh until the coordinator
ends them.

Exit statuses: mpirun's own if it failed; 80 a pod is unreachable; 81 MPI does not span the pods; 82 a network other than gIB;
83 incomplete table; 84 the logs cannot be written; 85 a pod is unhealthy; 86 the run has expired; 87 the coordinator did not
end a worker before the deadline; 88 gIB is missing in a pod; 124 a timeout; 143 terminated by a signal.
"""

import hashlib
import json
import os
import shlex
import shutil
import signal
import sys
import time

import pods
import proof
from pods import Failed, RUN, say

OUTPUT = os.environ.get("TESTBED_OUTPUT", "/output/testbed-logs")
PROGRAMS = os.environ.get("TESTBED_PROGRAMS", "/third_party/nccl-tests/build")
ENDED, RELEASE = os.path.join(RUN, "ended"), os.path.join(RUN, "release")
# The user's own launcher (`--set-file launcher=FILE`), next to this file.
CUSTOM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "custom.sh")
RANK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rank.sh")
MARKER, RESULTS, CONNECTIVITY = "complete.json", "nccl-test-results.txt", "connectivity-test.log"
MAX_PRINTED = 4 << 20


class Coordinator:
    """Runs the tests once and writes the output folder. `until`: deadline of the monotonic clock."""

    def __init__(self, plan, own, until):
        self.plan, self.own, self.until = plan, own, until
        self.stage, self.files, self.pods, self.efficiency = "output", {}, {0: own}, {}
        self.ranks = plan["nodes"] * plan["gpus_per_node"]
        self.work = os.path.join(RUN, "work")
        os.makedirs(self.work, exist_ok=True)

    def run(self):
        """Runs all stages up to the first failure."""
        self.claim()
        self.stage = "reach"
        self.reach()
        self.stage = "connectivity"
        self.connect()
        if os.path.exists(CUSTOM):
            self.stage = "custom"
            self.custom()
            return
        for test in self.plan["tests"]:
            self.stage = test["name"]
            self.test(test)

    def claim(self):
        """Creates the output folder; rejects one that already has a result, which would be overwritten."""
        try:
            os.makedirs(os.path.join(OUTPUT, "pod-logs"), exist_ok=True)
            if os.path.exists(os.path.join(OUTPUT, MARKER)):
                self.files = None
                raise Failed(84, f"{OUTPUT}: expected no {MARKER}, found one of an earlier run")
        except OSError as error:
            raise Failed(84, f"{OUTPUT}: {error.strerror}") from error

    def reach(self):
        """Waits until every pod responds by ssh and is healthy. At the timeout the error names the missing pods."""
        end = min(time.monotonic() + self.plan["reach_s"], self.until)
        missing = {index: "not tried" for index in range(1, self.plan["nodes"])}
        self.judge(self.own)
        while missing:
            for index, (status, output, error) in pods.run_on_all(self.plan, missing, ["cat", os.path.join(RUN, "self.json")]).items():
                missing[index] = error or f"exit status {status}"
                if status == 0:
                    self.pods[index] = json.loads(output)
                    del missing[index]
                    say(f"pod {index} responds: {self.pods[index]['pod']} on node {self.pods[index]['node']}")
                    self.judge(self.pods[index])
            if missing and time.monotonic() >= end:
                few = "; ".join(f"{pods.host(self.plan, index)}: {why}" for index, why in sorted(missing.items())[:8])
                raise Failed(80, f"{len(missing)} of {self.plan['nodes']} pods are unreachable: {few}")
            if missing:
                time.sleep(pods.POLL)
        names = [self.pods[index]["hostname"] for index in sorted(self.pods)]
        if len(set(names)) != len(names):
            raise Failed(81, f"expected {len(names)} hosts, found the names {', '.join(sorted(set(names))[:8])}")
        with open(os.path.join(RUN, "hostfile"), "w", encoding="utf-8") as file:
            for index in range(self.plan["nodes"]):
                file.write(f"{pods.host(self.plan, index)} slots={self.plan['gpus_per_node']}\n")

    @staticmethod
    def judge(pod):
        if pod["problems"]:
            raise Failed(85, f"pod {pod['index']} ({pod['pod']} on node {pod['node']}): {'; '.join(pod['problems'])}")

    def names(self):
        return [self.pods[index]["hostname"] for index in sorted(self.pods)]

    def launcher(self):
        """The words before a program that mpirun starts on all ranks. If mpirun is started by its full path, it uses the same
        path on the other pods. MPI's own messages always use TCP, because the tests measure RDMA."""
        interface = self.plan["socket_interface"]
        return [shutil.which("mpirun") or "mpirun", "--allow-run-as-root", "--hostfile", os.path.join(RUN, "hostfile"),
                   "-np", str(self.ranks), "--map-by", f"ppr:{self.plan['gpus_per_node']}:node", "--bind-to", "none",
                   "--mca", "orte_keep_fqdn_hostnames", "1", "--mca", "plm_rsh_no_tree_spawn", "1",
                   "--mca", "plm_rsh_agent", f"ssh -F {RUN}/ssh_config", "--mca", "pml", "ob1",
                   "--mca", "coll", "^hcoll", "--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", interface, "--mca", "oob_tcp_if_include", interface]

    def mpirun(self, words, limit_s, name):
        """Runs mpirun over all ranks; appends its output to `name`."""
        return self.logged([*self.launcher(), *words], words, limit_s, name)

    def logged(self, command, words, limit_s, name):
        """Runs a program and appends its output to `name`. `words`: the command, as printed."""
        path = os.path.join(self.work, name)
        start = os.path.getsize(path) if os.path.exists(path) else 0
        limit_s = min(limit_s, self.until - time.monotonic())
        say("$ " + " ".join(words))
        try:
            with open(path, "ab") as file:
                status = pods.program(command, limit_s, file)
        except OSError as error:
            raise Failed(127, f"{command[0]}: {error.strerror}") from error
        finally:
            self.publish(name)
        with open(path, "rb") as file:
            file.seek(start)
            text = file.read().decode(errors="replace")
        return status, text

    def connect(self):
        status, text = self.mpirun(["hostname"], self.plan["connectivity_s"], CONNECTIVITY)
        if status:
            raise Failed(status, f"mpirun failed with exit status {status}" if status != 124 else "mpirun timed out")
        self.require(81, proof.connectivity(text, self.names(), self.plan["gpus_per_node"]))
        say(f"MPI spans {self.plan['nodes']} pods and {self.ranks} ranks")

    def custom(self):
        """Runs the user's launcher instead of the tests, on the coordinator. Its exit status is the run's."""
        mpirun = os.path.join(RUN, "mpirun")
        pods.write("mpirun", f'#!/bin/sh\nexec {shlex.join(self.launcher())} "$@"\n')
        os.chmod(mpirun, 0o755)
        given = {"TESTBED_MPIRUN": mpirun, "TESTBED_RANK": RANK, "TESTBED_HOSTFILE": os.path.join(RUN, "hostfile"),
                 "TESTBED_SSH_CONFIG": os.path.join(RUN, "ssh_config"), "TESTBED_NODES": str(self.plan["nodes"]),
                 "TESTBED_RANKS": str(self.ranks), "TESTBED_OUTPUT": OUTPUT, "TESTBED_PROGRAMS": PROGRAMS}
        words = ["env", *(f"{name}={value}" for name, value in given.items()), "bash", CUSTOM]
        status, _ = self.logged(words, ["bash", CUSTOM], self.until - time.monotonic(), "custom.log")
        if status:
            raise Failed(status, "the launcher timed out" if status == 124 else f"the launcher failed with exit status {status}")

    def test(self, test):
        measured = os.path.join(self.work, f"{test['name']}.json")
        words = ["bash", RANK, os.path.join(PROGRAMS, f"{test['name']}_perf"), "-b", str(test["min_bytes"]), "-e", str(test["max_bytes"]),
                 "-f", str(test["step_factor"]), "-g", "1", "-n", str(test["iterations"]), "-w",
                 str(test["warmup_iterations"]), "-c", "1", "-J", measured]
        status, text = self.mpirun(words, self.plan["test_s"], RESULTS)
        self.keep(f"{test['name']}.log", text)
        if os.path.exists(measured):
            self.publish(os.path.basename(measured))
        if status:
            # The log's cause is more helpful than the exit status, which is returned unchanged.
            cause = proof.transport(text, self.names())
            raise Failed(status, "mpirun timed out" if status == 124 else
                         f"mpirun failed with exit status {status}" + (f"; {cause}" if cause else ""))
        self.require(82, proof.transport(text, self.names()))
        self.require(83, proof.table(text, test))
        if not os.path.exists(measured):
            raise Failed(83, f"{test['name']}_perf wrote no {os.path.basename(measured)} (-J)")
        found = proof.efficiency(text, test["name"], self.ranks, self.plan["nodes"], self.plan["line_rate"])
        self.efficiency[test["name"]] = found
        say(f"{test['name']}: {len(proof.sizes(test))} sizes over gIB; efficiency {found['efficiency_percent']} %: best bus bandwidth "
            f"{found['best_busbw']} GB/s at {found['at_bytes']} bytes, maximum of the network {found['permitted_busbw']} GB/s")

    def keep(self, name, text):
        """Writes a test's own log, because Burnin judges one collective per run and the results file has all of them."""
        path = os.path.join(self.work, name)
        try:
            pods.write(path, text)
        except OSError as error:
            raise Failed(84, f"{path}: {error.strerror}") from error
        self.publish(name)

    @staticmethod
    def require(status, complaint):
        if complaint:
            raise Failed(status, complaint)

    def publish(self, name, source=None):
        """Copies the current content of a work file to the output folder."""
        try:
            with open(source or os.path.join(self.work, name), "rb") as file:
                content = file.read()
            with open(os.path.join(OUTPUT, name), "wb") as file:
                file.write(content)
        except OSError as error:
            raise Failed(84, f"{os.path.join(OUTPUT, name)}: {error.strerror}") from error
        self.files[name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}

    def close(self, status, reason):
        """Collects the pods' logs and writes the marker last. Returns the final exit status."""
        say(f"{self.stage}: {reason}" if reason else "all tests have run")
        if self.files is None:
            return status
        reached = [index for index in sorted(self.pods) if index]
        try:
            for index, (_, output, error) in sorted(pods.run_on_all(self.plan, reached, ["cat", pods.LOG]).items()):
                path = os.path.join(self.work, f"worker-{index}.log")
                with open(path, "wb") as file:
                    file.write(output or f"cannot read this worker's log: {error}\n".encode())
                self.publish(f"pod-logs/worker-{index}.log", path)
            self.publish("pod-logs/coordinator.log", pods.LOG)
            marker = {"schema": "testbed/complete/v1", "run": self.plan["run"], "attempt": self.plan["attempt"],
                      "cluster": self.plan["cluster"], "image": self.plan["image"], "exit_status": status,
                      "stage": self.stage if status else "done", "reason": reason, "ended": int(time.time()),
                      "efficiency": self.efficiency,
                      "pods": [{key: self.pods[index][key] for key in ("index", "pod", "node", "hostname")}
                               for index in sorted(self.pods)], "files": dict(self.files)}
            path = os.path.join(self.work, MARKER)
            with open(path, "w", encoding="utf-8") as file:
                json.dump(marker, file, indent=1)
            self.publish(MARKER, path)
        except Failed as failed:
            say(f"output: {failed.reason}")
            status = status or failed.status
        if self.plan["told"]:
            self.print_files()
        return status

    def print_files(self):
        """Without a bucket: prints the output files that standard output does not contain yet."""
        for name in sorted(self.files):
            printed = (RESULTS, CONNECTIVITY, "custom.log", "pod-logs/coordinator.log", *(f"{test['name']}.log" for test in self.plan["tests"]))
            if name in printed or self.files[name]["bytes"] > MAX_PRINTED:
                continue
            with open(os.path.join(OUTPUT, name), "rb") as file:
                content = file.read()
            sys.stdout.buffer.write(f"=== {name} {len(content)} bytes\n".encode() + content + b"\n=== end\n")
            sys.stdout.buffer.flush()

    def release(self, until):
        """Keeps the pods for debugging if requested, then ends the workers."""
        if self.plan["keep_s"] and not os.path.exists(RELEASE):
            say(f"pods are kept for {self.plan['keep_s'] // 60} minutes at most; `touch {RELEASE}` releases them")
            until = min(until, time.monotonic() + self.plan["keep_s"])
            while time.monotonic() < until and not os.path.exists(RELEASE):
                time.sleep(pods.POLL)
        # Includes unreachable workers: if the command fails on a worker, Kubernetes ends this worker after the coordinator's pod.
        pods.run_on_all(self.plan, range(1, self.plan["nodes"]), ["touch", ENDED])


def coordinate(plan, own, until, last):
    coordinator, status, reason = Coordinator(plan, own, until), 0, None
    try:
        coordinator.run()
    except Failed as failed:
        status, reason = failed.status, failed.reason
    # SIGTERM must not interrupt this part: the grace period is a minute, and the files are small.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    status = coordinator.close(status, reason)
    # From here SIGTERM releases kept pods immediately.
    signal.signal(signal.SIGTERM, lambda *_: pods.write(os.path.basename(RELEASE), ""))
    if status != 143:
        coordinator.release(last)
    return status


def wait(last):
    """Waits in a worker until the coordinator ends it."""
    while not os.path.exists(ENDED):
        if time.monotonic() >= last:
            raise Failed(87, "the coordinator did not end this worker before the deadline")
        time.sleep(pods.POLL)
    say("ended by the coordinator")
    return 0


def stopped(_number, _frame):
    raise Failed(143, "terminated by SIGTERM")


def main():
    signal.signal(signal.SIGTERM, stopped)
    started, here = time.monotonic(), os.path.dirname(os.path.abspath(__file__))
    with open(os.environ.get("TESTBED_PLAN", os.path.join(here, "plan.json")), encoding="utf-8") as file:
        plan = json.load(file)
    index = int(os.environ["JOB_COMPLETION_INDEX"])
    os.makedirs(RUN, exist_ok=True)
    sshd = None
    try:
        remaining = plan["expires"] - time.time()
        if remaining <= 0:
            raise Failed(86, f"the run expired {-int(remaining)} s ago")
        until = started + min(plan["deadline_s"], remaining)
        last = started + min(plan["deadline_s"] + plan["keep_s"], remaining)
        pods.prepare(plan)
        sshd = pods.serve()
        own = pods.inspect(plan, index)
        return coordinate(plan, own, until, last) if index == 0 else wait(last)
    except Failed as failed:
        say(failed.reason)
        return failed.status
    finally:
        if sshd:
            sshd.terminate()
            sshd.wait()


if __name__ == "__main__":
    sys.exit(main())
