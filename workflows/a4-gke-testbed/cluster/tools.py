"""The tools on the PATH: gcluster, gcloud, kubectl, helm. Every word of a command is one argument; no shell reads it."""

import json
import os
import re
import shutil
import subprocess
import sys
import time

POLL = float(os.environ.get("TESTBED_POLL_S", "10"))
# What a provider says when it cannot, and what that is.
CAUSES = (
    (re.compile(r"Quota '[^']*' exceeded[^\n]*|QUOTA_EXCEEDED[^\n]*|quotaExceeded[^\n]*"), "quota"),
    (re.compile(r"ZONE_RESOURCE_POOL_EXHAUSTED[^\n]*|INSUFFICIENT_CAPACITY[^\n]*|GCE_STOCKOUT[^\n]*|does not have enough resources[^\n]*"), "stock-out"),
    (re.compile(r"Error acquiring the state lock[^\n]*"), "another deployment holds the state"),
    (re.compile(r"PERMISSION_DENIED[^\n]*|Required '[^']*' permission[^\n]*|Error 403[^\n]*"), "permission"),
)


class Failed(Exception):
    """A tool did not do what it should; the message is one line that says what is wrong."""

    def __init__(self, message, said=""):
        super().__init__(message)
        self.said = said


def run(*words, limit_s=300, told=True, file=None):
    """A tool's standard output. Its output is told as it comes, unless it is data."""
    print("$ " + " ".join(words), flush=True)
    environment = {**os.environ, "TF_IN_AUTOMATION": "TRUE", "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
                   "KUBECONFIG": os.path.abspath("kubeconfig"), "USE_GKE_GCLOUD_AUTH_PLUGIN": "True"}
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace",
                              stderr=subprocess.STDOUT if told else subprocess.PIPE, env=environment, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{words[0]} {words[1]}: not done in {limit_s} s") from error
    except OSError as error:
        raise Failed(f"{words[0]}: {error.strerror}") from error
    if told:
        sys.stdout.write(done.stdout)
    if done.returncode:
        said = done.stdout + (done.stderr or "")
        cause = next((f"{name}: {found.group(0).strip()}" for pattern, name in CAUSES if (found := pattern.search(said))), None)
        last = next((line.strip() for line in reversed(said.splitlines()) if line.strip()), "nothing was said")
        raise Failed(f"{words[0]} {words[1]} ended with {done.returncode}: {(cause or last)[:300]}", said)
    return done.stdout


def read(*words, limit_s=120):
    """A tool's answer in JSON."""
    answer = run(*words, limit_s=limit_s, told=False)
    try:
        return json.loads(answer.strip() or "null")
    except ValueError as error:
        raise Failed(f"{words[0]} {words[1]}: its answer is no JSON: {error}") from error


def until(limit_s, what, look):
    """Looks until `look` has no complaint any more. Trouble with asking is a complaint too."""
    end = time.monotonic() + limit_s
    while True:
        try:
            complaint = look()
        except Failed as failed:
            complaint = str(failed)
        if not complaint:
            print(f"{what}: ready", flush=True)
            return
        if time.monotonic() >= end:
            raise Failed(f"{what}: not ready in {limit_s} s: {complaint}")
        print(f"{what}: {complaint}", flush=True)
        time.sleep(POLL)


def missing(*names):
    return [name for name in names if shutil.which(name) is None]


def keep(state, name):
    """A file of the workspace to the cluster's own folder, before anything is made that it is needed for."""
    if state.startswith("gs://"):
        run("gcloud", "storage", "cp", name, f"{state.rstrip('/')}/{name}")
    else:
        os.makedirs(state, exist_ok=True)
        shutil.copyfile(name, os.path.join(state, name))


def fetch(state, name):
    """The same back; False if it was never kept. Not knowing is an error."""
    if not state.startswith("gs://"):
        if not os.path.exists(os.path.join(state, name)):
            return False
        shutil.copyfile(os.path.join(state, name), name)
        return True
    try:
        run("gcloud", "storage", "cp", f"{state.rstrip('/')}/{name}", name)
    except Failed as failed:
        if "matched no objects" in failed.said:
            return False
        raise
    return True
