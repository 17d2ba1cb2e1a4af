"""Renders the chart with Helm's engine, and runs the rendered launcher in pods that are processes of this machine.

standin.py replaces mpirun, ssh, sshd, nvidia-smi and the benchmarks, and records their calls."""

import base64
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import helm_python as helm
import yaml

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
FLOW = ROOT / "workflows" / "a4-gke-testbed"
IMAGE = "us-docker.pkg.dev/p/r/testbed@sha256:" + "a" * 64
GIB = "us-docker.pkg.dev/gce-ai-infra/gpudirect-gib/nccl-plugin-gib-diagnostic@sha256:" + "b" * 64
VALUES = {"run": "r-1", "attempt": 1, "cluster": "c-1", "expires": 1800000000, "image": IMAGE, "gpus": 16, "queue": "a4",
          "bucket": "logs", "network": {"gib": {"image": GIB}}}


def merged(base, more):
    """`base` overridden by `more`, as Helm merges values."""
    both = dict(base)
    for name, value in more.items():
        both[name] = merged(base[name], value) if isinstance(value, dict) and isinstance(base.get(name), dict) else value
    return both


def render(more=None, name="bed", namespace="tests"):
    """The rendered objects by kind."""
    with helm.Chart.load(str(FLOW / "chart")) as chart:
        files = chart.render(merged(VALUES, more or {}), name=name, namespace=namespace, is_install=True)
    objects = [found for text in files.values() for found in yaml.safe_load_all(text) if found]
    return {found["kind"]: found for found in objects}


def pod_spec(objects):
    return objects["JobSet"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]


class Pods:
    """Pods of one release: a folder per pod, the rendered launcher, and stand-ins on the PATH."""

    def __init__(self, nodes=2, real_ssh=False, custom="", **plan):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="testbed-"))
        self.nodes, self.real_ssh, self.started = nodes, real_ssh, {}
        objects = render({"gpus": nodes * 8, "expires": int(time.time()) + 3600, "launcher": custom})
        launcher = self.folder / "workload"
        launcher.mkdir()
        for name, text in objects["ConfigMap"]["data"].items():
            (launcher / name).write_text(text)
        self.plan = json.loads((launcher / "plan.json").read_text())
        self.plan.update({"reach_s": 20, "test_s": 20, "connectivity_s": 20, "deadline_s": 60, **plan})
        (launcher / "plan.json").write_text(json.dumps(self.plan))
        (self.folder / "keys").mkdir()
        for name, text in objects["Secret"]["data"].items():
            (self.folder / "keys" / name).write_bytes(base64.b64decode(text))
        (self.folder / "gib" / "scripts").mkdir(parents=True)
        (self.folder / "gib" / "scripts" / "set_nccl_env.sh").write_text("export NCCL_FROM_GIB=1 NCCL_NET=other\n")
        (self.folder / "bin").mkdir()
        for name in ("mpirun", "ssh", "sshd", "nvidia-smi", "all_reduce_perf", "all_gather_perf"):
            (self.folder / "bin" / name).write_text(f"#!/bin/sh\nexec {sys.executable} -S {HERE}/standin.py {name} \"$@\"\n")
            (self.folder / "bin" / name).chmod(0o755)
        self.output = self.folder / "output" / "testbed-logs"
        self.calls_file = self.folder / "calls"
        self.calls_file.touch()
        self.ports = free_ports(nodes) if real_ssh else [0] * nodes

    def start(self, index, **faults):
        run = self.folder / "run" / str(index)
        run.mkdir(parents=True)
        environment = {
            "PATH": f"{self.folder}/bin:{os.environ['PATH']}", "HOME": str(self.folder), "JOB_COMPLETION_INDEX": str(index),
            "TESTBED_RUN": str(run), "TESTBED_KEYS": str(self.folder / "keys"), "TESTBED_GIB": str(self.folder / "gib"),
            "TESTBED_OUTPUT": str(self.output), "TESTBED_PROGRAMS": str(self.folder / "bin"), "TESTBED_POLL_S": "0.05",
            "TESTBED_SSHD": "/usr/sbin/sshd" if self.real_ssh else str(self.folder / "bin" / "sshd"),
            "TESTBED_PORT": str(self.ports[index] or 2222), "TESTBED_HOSTNAME": f"bed-workload-0-{index}",
            "TESTBED_POD": f"bed-workload-0-{index}-abcde", "TESTBED_NODE": f"gke-node-{index}",
            "STANDIN": str(self.folder), "STANDIN_PORTS": json.dumps(self.ports), "STANDIN_FAULTS": json.dumps(faults),
            "PYTHONDONTWRITEBYTECODE": "1", "LD_LIBRARY_PATH": "/image/lib"}
        out = open(self.folder / f"stdout-{index}", "wb")
        self.started[index] = subprocess.Popen([sys.executable, str(self.folder / "workload" / "launch.py")], env=environment,
                                               stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        out.close()
        return self.started[index]

    def run(self, workers=None, **faults):
        """Runs workers and coordinator. Returns the coordinator's exit status."""
        for index in range(1, self.nodes) if workers is None else workers:
            self.start(index, **faults)
        return self.start(0, **faults).wait(timeout=60)

    def output_of(self, index=0):
        return (self.folder / f"stdout-{index}").read_text(errors="replace")

    def calls(self, name=None):
        lines = [json.loads(line) for line in self.calls_file.read_text().splitlines()]
        return [call for call in lines if name in (None, call["name"])]

    def written(self):
        """The output's files, in the order of their last write."""
        files = [path for path in self.output.rglob("*") if path.is_file()]
        return [str(path.relative_to(self.output)) for path in sorted(files, key=lambda path: path.stat().st_mtime_ns)]

    def marker(self):
        return json.loads((self.output / "complete.json").read_text())

    def close(self):
        for process in self.started.values():
            if process.poll() is None:
                process.terminate()
        for process in self.started.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=60)
            if process.poll() is None:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder)


def free_ports(count):
    import socket
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
