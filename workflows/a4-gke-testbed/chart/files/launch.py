"""What every pod of the test bed runs. Pod 0 coordinates: it reaches the others, tries MPI, runs the tests, proves the
transport, writes testbed-logs/ and, last of all, complete.json; the others serve ssh until the coordinator ends them.

Exit statuses: mpirun's own when it failed; 80 a pod was never reached; 81 MPI does not span the pods; 82 not gIB alone;
83 output without its table; 84 the logs cannot be written; 85 a pod is not fit; 86 the time is over before it began; 87 a
worker was never told of the end; 88 gIB is not in a pod; 124 a time limit; 143 stopped from outside.
"""

import hashlib
import json
import os
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
MARKER, RESULTS, CONNECTIVITY = "complete.json", "nccl-test-results.txt", "connectivity-test.log"
MOST_TOLD = 4 << 20


class Coordinator:
    """One passage through the tests, and what it leaves."""

    def __init__(self, plan, own, until):
        self.plan, self.own, self.until = plan, own, until
        self.stage, self.files, self.pods, self.efficiency = "output", {}, {0: own}, {}
        self.ranks = plan["nodes"] * plan["gpus_per_node"]
        self.work = os.path.join(RUN, "work")
        os.makedirs(self.work, exist_ok=True)

    def run(self):
        """All of it, until the first failure."""
        self.claim()
        self.stage = "reach"
        self.reach()
        self.stage = "connectivity"
        self.connect()
        for test in self.plan["tests"]:
            self.stage = test["name"]
            self.test(test)

    def claim(self):
        """The output is ours and empty: what another attempt left is not written over."""
        try:
            os.makedirs(os.path.join(OUTPUT, "pod-logs"), exist_ok=True)
            if os.path.exists(os.path.join(OUTPUT, MARKER)):
                self.files = None
                raise Failed(84, f"{OUTPUT}: {MARKER} of an earlier run is there")
        except OSError as error:
            raise Failed(84, f"{OUTPUT}: {error.strerror}") from error

    def reach(self):
        """Every pod answers by ssh and is fit. Those that do not come are named when the time is over."""
        end = min(time.monotonic() + self.plan["reach_s"], self.until)
        missing = {index: "never asked" for index in range(1, self.plan["nodes"])}
        self.judge(self.own)
        while missing:
            for index, (status, said, error) in pods.ask_all(self.plan, missing, ["cat", os.path.join(RUN, "self.json")]).items():
                missing[index] = error or f"exit status {status}"
                if status == 0:
                    self.pods[index] = json.loads(said)
                    del missing[index]
                    say(f"pod {index} is reached: {self.pods[index]['pod']} on node {self.pods[index]['node']}")
                    self.judge(self.pods[index])
            if missing and time.monotonic() >= end:
                few = "; ".join(f"{pods.host(self.plan, index)}: {why}" for index, why in sorted(missing.items())[:8])
                raise Failed(80, f"{len(missing)} of {self.plan['nodes']} pods were never reached: {few}")
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

    def mpirun(self, words, limit_s, name):
        """mpirun over all ranks; its output is kept. Called by its full path, it finds itself on the other pods too. MPI's own
        words go over TCP, whatever the image prefers: RDMA is what is tested."""
        interface = self.plan["socket_interface"]
        command = [shutil.which("mpirun") or "mpirun", "--allow-run-as-root", "--hostfile", os.path.join(RUN, "hostfile"),
                   "-np", str(self.ranks), "--map-by", f"ppr:{self.plan['gpus_per_node']}:node", "--bind-to", "none",
                   "--mca", "orte_keep_fqdn_hostnames", "1", "--mca", "plm_rsh_no_tree_spawn", "1",
                   "--mca", "plm_rsh_agent", f"ssh -F {RUN}/ssh_config", "--mca", "pml", "ob1",
                   "--mca", "coll", "^hcoll", "--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", interface, "--mca", "oob_tcp_if_include", interface, *words]
        path = os.path.join(self.work, name)
        start = os.path.getsize(path) if os.path.exists(path) else 0
        limit_s = min(limit_s, self.until - time.monotonic())
        say("$ " + " ".join(words))
        try:
            with open(path, "ab") as file:
                status = pods.program(command, limit_s, file)
        except OSError as error:
            raise Failed(127, f"mpirun: {error.strerror}") from error
        finally:
            self.publish(name)
        with open(path, "rb") as file:
            file.seek(start)
            text = file.read().decode(errors="replace")
        return status, text

    def connect(self):
        status, text = self.mpirun(["hostname"], self.plan["connectivity_s"], CONNECTIVITY)
        if status:
            raise Failed(status, f"mpirun ended with {status}" if status != 124 else "ended for its time")
        self.require(81, proof.connectivity(text, self.names(), self.plan["gpus_per_node"]))
        say(f"MPI spans {self.plan['nodes']} pods and {self.ranks} ranks")

    def test(self, test):
        measured = os.path.join(self.work, f"{test['name']}.json")
        words = ["bash", os.path.join(os.path.dirname(os.path.abspath(__file__)), "rank.sh"),
                 os.path.join(PROGRAMS, f"{test['name']}_perf"), "-b", str(test["min_bytes"]), "-e", str(test["max_bytes"]),
                 "-f", str(test["step_factor"]), "-g", "1", "-n", str(test["iterations"]), "-w",
                 str(test["warmup_iterations"]), "-c", "1", "-J", measured]
        status, text = self.mpirun(words, self.plan["test_s"], RESULTS)
        self.keep(f"{test['name']}.log", text)
        if os.path.exists(measured):
            self.publish(os.path.basename(measured))
        if status:
            # What the log says of the transport is worth more than a number; the number stays the exit status.
            cause = proof.transport(text, self.names())
            raise Failed(status, "ended for its time" if status == 124 else
                         f"mpirun ended with {status}" + (f"; {cause}" if cause else ""))
        self.require(82, proof.transport(text, self.names()))
        self.require(83, proof.table(text, test))
        if not os.path.exists(measured):
            raise Failed(83, f"{test['name']}_perf wrote no {os.path.basename(measured)} (-J)")
        found = proof.efficiency(text, test["name"], self.ranks, self.plan["nodes"], self.plan["line_rate"])
        self.efficiency[test["name"]] = found
        say(f"{test['name']}: {len(proof.sizes(test))} sizes over gIB; efficiency {found['efficiency_percent']} %: the best bus bandwidth is "
            f"{found['best_busbw']} GB/s at {found['at_bytes']} bytes, the network permits {found['permitted_busbw']} GB/s")

    def keep(self, name, text):
        """A test's own log: Burnin judges one collective a run, and the results hold all of them."""
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
        """A file of ours, as it stands, to the output."""
        try:
            with open(source or os.path.join(self.work, name), "rb") as file:
                content = file.read()
            with open(os.path.join(OUTPUT, name), "wb") as file:
                file.write(content)
        except OSError as error:
            raise Failed(84, f"{os.path.join(OUTPUT, name)}: {error.strerror}") from error
        self.files[name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}

    def close(self, status, reason):
        """The others' logs, our own, and the marker after everything else. Gives the final exit status."""
        say(f"{self.stage}: {reason}" if reason else "all tests are through")
        if self.files is None:
            return status
        reached = [index for index in sorted(self.pods) if index]
        try:
            for index, (_, said, error) in sorted(pods.ask_all(self.plan, reached, ["cat", pods.LOG]).items()):
                path = os.path.join(self.work, f"worker-{index}.log")
                with open(path, "wb") as file:
                    file.write(said or f"its log cannot be read: {error}\n".encode())
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
            self.tell()
        return status

    def tell(self):
        """Without a bucket: what standard output has not shown yet."""
        for name in sorted(self.files):
            shown = (RESULTS, CONNECTIVITY, "pod-logs/coordinator.log", *(f"{test['name']}.log" for test in self.plan["tests"]))
            if name in shown or self.files[name]["bytes"] > MOST_TOLD:
                continue
            with open(os.path.join(OUTPUT, name), "rb") as file:
                content = file.read()
            sys.stdout.buffer.write(f"=== {name} {len(content)} bytes\n".encode() + content + b"\n=== end\n")
            sys.stdout.buffer.flush()

    def release(self, until):
        """Keeps the pods where that was asked for, then lets the others go."""
        if self.plan["keep_s"] and not os.path.exists(RELEASE):
            say(f"kept for {self.plan['keep_s'] // 60} minutes at most; `touch {RELEASE}` ends it")
            until = min(until, time.monotonic() + self.plan["keep_s"])
            while time.monotonic() < until and not os.path.exists(RELEASE):
                time.sleep(pods.POLL)
        # Also those that were not reached: Kubernetes ends them when this pod has ended.
        pods.ask_all(self.plan, range(1, self.plan["nodes"]), ["touch", ENDED])


def coordinate(plan, own, until, last):
    coordinator, status, reason = Coordinator(plan, own, until), 0, None
    try:
        coordinator.run()
    except Failed as failed:
        status, reason = failed.status, failed.reason
    # From here on a stop does not interrupt: Kubernetes gives a minute, and these are small files.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    status = coordinator.close(status, reason)
    # What is only kept is let go at once.
    signal.signal(signal.SIGTERM, lambda *_: pods.write(os.path.basename(RELEASE), ""))
    if status != 143:
        coordinator.release(last)
    return status


def wait(last):
    """A worker's part: to be there until it is over."""
    while not os.path.exists(ENDED):
        if time.monotonic() >= last:
            raise Failed(87, "nobody said that it is over, and the time is")
        time.sleep(pods.POLL)
    say("it is over")
    return 0


def stopped(_number, _frame):
    raise Failed(143, "stopped from outside")


def main():
    signal.signal(signal.SIGTERM, stopped)
    started, here = time.monotonic(), os.path.dirname(os.path.abspath(__file__))
    with open(os.environ.get("TESTBED_PLAN", os.path.join(here, "plan.json")), encoding="utf-8") as file:
        plan = json.load(file)
    index = int(os.environ["JOB_COMPLETION_INDEX"])
    os.makedirs(RUN, exist_ok=True)
    sshd = None
    try:
        left = plan["expires"] - time.time()
        if left <= 0:
            raise Failed(86, f"the run had to end {-int(left)} s ago")
        until = started + min(plan["deadline_s"], left)
        last = started + min(plan["deadline_s"] + plan["keep_s"], left)
        pods.prepare(plan)
        sshd = pods.serve()
        own = pods.look(plan, index)
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
