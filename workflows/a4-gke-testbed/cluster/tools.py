"""The tools on the PATH: gcluster, gcloud, kubectl, helm. Every word of a command is one argument; no shell reads it."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
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


def run(*words, limit_s=300, told=True):
    """A tool's standard output. Its output is printed as it comes, unless it is data."""
    print("$ " + " ".join(words), flush=True)
    environment = {**os.environ, "TF_IN_AUTOMATION": "TRUE", "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
                   "KUBECONFIG": os.path.abspath("kubeconfig"), "USE_GKE_GCLOUD_AUTH_PLUGIN": "True"}
    said, errors, late = [], [], threading.Event()
    try:
        with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace", env=environment,
                              stderr=subprocess.STDOUT if told else subprocess.PIPE, start_new_session=True) as child:
            timer = threading.Timer(limit_s, lambda: (late.set(), end(child)))
            timer.start()
            # Both are read at once, or a tool that says much on one would wait for us for ever.
            other = threading.Thread(target=lambda: errors.extend(child.stderr or ()))
            other.start()
            for line in child.stdout:
                said.append(line)
                if told:
                    sys.stdout.write(line)
                    sys.stdout.flush()
            other.join()
            status = child.wait()
            timer.cancel()
    except OSError as error:
        raise Failed(f"{words[0]}: {error.strerror}") from error
    if late.is_set():
        raise Failed(f"{words[0]} {words[1]}: not done in {limit_s} s", "".join(said))
    if status:
        whole = "".join(said + errors)
        cause = next((f"{name}: {found.group(0).strip()}" for pattern, name in CAUSES if (found := pattern.search(whole))), None)
        last = next((line.strip() for line in reversed(whole.splitlines()) if line.strip()), "nothing was said")
        raise Failed(f"{words[0]} {words[1]} ended with {status}: {(cause or last)[:300]}", whole)
    return "".join(said)


def end(child):
    """A tool and what it began."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


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
