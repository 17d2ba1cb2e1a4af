"""Executes blocks of docs/RUNBOOK.md in a copy of the project, with the real Terraform and stand-ins for the other programs (stand_in.py)."""

import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time

import runbook
from cloud import Cloud

HERE = pathlib.Path(__file__).parent
ROOT = runbook.ROOT
# Compilation is slow, so a text with the number of the build replaces a service's program.
IMAGES = '''
echo $(($(cat builds 2>/dev/null || echo 0) + 1)) >builds
for service in {services}; do
  mkdir -p target/images/"$1"/$service
  echo "$service $(cat builds)" >target/images/"$1"/$service/service
done
'''
STAND_INS = ("gcloud", "docker", "terraform", "curl", "burnin")


class Failed(Exception):
    """A command of a block failed; the text is its output."""


class Rehearsal:
    def __init__(self, folder, programs):
        """`programs`: paths of the real `terraform`, `curl`, `burnin`, and of `python` with the modules of the stand-in provider."""
        self.folder, self.programs = pathlib.Path(folder), programs
        self.project, self.cloud_folder = self.folder / "project", self.folder / "cloud"
        self.processes = []
        self.local = {}

    def create(self):
        self.cloud_folder.mkdir(parents=True)
        for name in (".ci", "infra", "workflows", "schemas/bigquery"):
            shutil.copytree(ROOT / name, self.project / name, ignore=shutil.ignore_patterns(".terraform*", "*.tfvars*"))
        versions = self.project / "infra/versions.tf"
        versions.write_text(re.sub(r'  # The state bucket.*?backend "gcs" \{.*?\n  \}\n', "", versions.read_text(), flags=re.S))
        services = " ".join(sorted(path.name for path in (ROOT / "services").iterdir()))
        (self.project / ".ci/images.sh").write_text(IMAGES.replace("{services}", services))
        return self.start()

    def start(self):
        stand_ins = self.folder / "bin"
        stand_ins.mkdir(exist_ok=True)
        for name in STAND_INS:
            (stand_ins / name).write_text(f'#!/bin/sh\nexec {sys.executable} -S -B {HERE / "stand_in.py"} {name} "$@"\n')
            (stand_ins / name).chmod(0o755)
        provider = subprocess.Popen([self.programs["python"], "-B", HERE / "cloud_provider.py"], env={**os.environ, "CLOUD": str(self.cloud_folder)},
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.processes.append(provider)
        stand_in = {"Protocol": "grpc", "ProtocolVersion": 6, "Pid": provider.pid, "Test": True,
                    "Addr": {"Network": "tcp", "String": provider.stdout.readline().strip()}}
        self.environment = {
            "CLOUD": str(self.cloud_folder), "PATH": f"{stand_ins}:{os.environ['PATH']}", "HOME": str(self.folder), "CHECKPOINT_DISABLE": "1",
            "TF_REATTACH_PROVIDERS": json.dumps({f"hashicorp/{name}": stand_in for name in ("google", "time")}),
            "TF_CLI_CONFIG_FILE": "/dev/null", **{name.upper(): str(path) for name, path in self.programs.items()}}
        return self

    def stop(self):
        for process in self.processes:
            process.terminate()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream:
                    stream.close()

    def serve(self):
        """Starts the local server behind the deployed gateway's address. stand_in.py copies the workflows of the bucket for it, with
        processes instead of their clusters."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        data = self.folder / "up"
        workflows = self.folder / "workflows"
        workflows.mkdir()
        # HOME is unchanged, because the user's home folder contains the compilers.
        with (self.folder / "up.log").open("w") as log:
            server = subprocess.Popen([self.programs["burnin"], "up", "--port", str(port), "--workflows", workflows, "--data", data],
                                      stdout=log, stderr=log, cwd=self.folder)
        self.processes.append(server)
        header = data / f"host/up/{port}.header"
        began = time.monotonic()
        while not header.exists():
            if server.poll() is not None or time.monotonic() - began > 20:
                raise Failed((self.folder / "up.log").read_text())
            time.sleep(0.05)
        self.local = {"LOCAL_WORKFLOWS": str(workflows), "LOCAL_SERVER": f"http://127.0.0.1:{port}", "LOCAL_HEADER": str(header)}

    def run(self, commands):
        """Executes commands in one shell, which continues with the variables of the last one. Returns the output."""
        saved = self.folder / "variables"
        names = set(self.environment) | set(self.local) | {"PWD", "OLDPWD", "SHLVL", "_"}
        lines = ["set -euo pipefail", f"[[ ! -e {saved} ]] || . {saved}"]
        for command in commands:
            lines += [f"printf '%s\\n' {runbook.shlex.quote('$ ' + command)}", command]
        lines += [f"export -p | grep -vE '^declare -x ({'|'.join(sorted(names))})(=|$)' >{saved} || true"]
        done = subprocess.run(["bash", "-c", "\n".join(lines)], cwd=self.project, env={**self.environment, **self.local}, text=True, timeout=300,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if done.returncode:
            raise Failed(done.stdout)
        return done.stdout

    def cloud(self):
        return Cloud(self.cloud_folder)

    def images(self):
        """Image of the serving revision, by service."""
        cloud = self.cloud()
        return {name: cloud.serving(name)["image"] for name in sorted(cloud.state["services"])}


def blocks(page, section):
    """The console blocks of a section, each as a list of commands."""
    found = {}
    for command in runbook.commands(page):
        if command.section == section and command.block:
            found.setdefault(command.block, []).append(command.text)
    return list(found.values())
