"""Calls of the tools on the PATH: gcluster, gcloud, kubectl, helm. Each word is one argument; no shell interprets it."""

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
# Patterns of a tool's output with the name of the cause. The first match is reported.
CAUSES = (
    (re.compile(r"Quota '[^']*' exceeded[^\n]*|QUOTA_EXCEEDED[^\n]*|quotaExceeded[^\n]*"), "quota"),
    (re.compile(r"ZONE_RESOURCE_POOL_EXHAUSTED[^\n]*|INSUFFICIENT_CAPACITY[^\n]*|GCE_STOCKOUT[^\n]*|does not have enough resources[^\n]*"), "stock-out"),
    (re.compile(r"Error acquiring the state lock[^\n]*"), "locked by another deployment"),
    (re.compile(r"PERMISSION_DENIED[^\n]*|Required '[^']*' permission[^\n]*|Error 403[^\n]*"), "permission"),
)


class Failed(Exception):
    """A failed call; the message is one line with the cause, `output` is the tool's output."""

    def __init__(self, message, output=""):
        super().__init__(message)
        self.output = output


def run(*words, limit_s=300, shown=True):
    """Runs a tool and returns its standard output. `shown`: also prints it immediately, together with the error output."""
    print("$ " + " ".join(words), flush=True)
    environment = {**os.environ, "TF_IN_AUTOMATION": "TRUE", "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
                   "KUBECONFIG": os.path.abspath("kubeconfig"), "USE_GKE_GCLOUD_AUTH_PLUGIN": "True"}
    lines, errors, timed_out = [], [], threading.Event()
    try:
        with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace", env=environment,
                              stderr=subprocess.STDOUT if shown else subprocess.PIPE, start_new_session=True) as child:
            timer = threading.Timer(limit_s, lambda: (timed_out.set(), end(child)))
            timer.start()
            # Both streams are read at the same time: otherwise a tool could block on a full pipe.
            reader = threading.Thread(target=lambda: errors.extend(child.stderr or ()))
            reader.start()
            for line in child.stdout:
                lines.append(line)
                if shown:
                    sys.stdout.write(line)
                    sys.stdout.flush()
            reader.join()
            status = child.wait()
            timer.cancel()
    except OSError as error:
        raise Failed(f"{words[0]}: {error.strerror}") from error
    if timed_out.is_set():
        raise Failed(f"{words[0]} {words[1]}: timeout after {limit_s} s", "".join(lines))
    if status:
        whole = "".join(lines + errors)
        cause = next((f"{name}: {found.group(0).strip()}" for pattern, name in CAUSES if (found := pattern.search(whole))), None)
        last = next((line.strip() for line in reversed(whole.splitlines()) if line.strip()), "no output")
        raise Failed(f"{words[0]} {words[1]} failed with exit status {status}: {(cause or last)[:300]}", whole)
    return "".join(lines)


def end(child):
    """Kills a tool with its process group."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def read(*words, limit_s=120):
    """Runs a tool and returns its JSON output."""
    output = run(*words, limit_s=limit_s, shown=False)
    try:
        return json.loads(output.strip() or "null")
    except ValueError as error:
        raise Failed(f"{words[0]} {words[1]}: the output is not JSON: {error}") from error


def until(limit_s, what, check):
    """Repeats `check` until it returns None; a failed call is treated as not ready. Raises Failed at the timeout."""
    end = time.monotonic() + limit_s
    while True:
        try:
            problem = check()
        except Failed as failed:
            problem = str(failed)
        if not problem:
            print(f"{what}: ready", flush=True)
            return
        if time.monotonic() >= end:
            raise Failed(f"{what}: not ready after {limit_s} s: {problem}")
        print(f"{what}: {problem}", flush=True)
        time.sleep(POLL)


def missing(*names):
    return [name for name in names if shutil.which(name) is None]


def keep(state, name):
    """Stores a file of the workspace in the cluster's state folder."""
    if state.startswith("gs://"):
        run("gcloud", "storage", "cp", name, f"{state.rstrip('/')}/{name}")
    else:
        os.makedirs(state, exist_ok=True)
        shutil.copyfile(name, os.path.join(state, name))


def fetch(state, name):
    """Restores a stored file; returns False if it does not exist. Raises Failed if its existence cannot be determined."""
    if not state.startswith("gs://"):
        if not os.path.exists(os.path.join(state, name)):
            return False
        shutil.copyfile(os.path.join(state, name), name)
        return True
    try:
        run("gcloud", "storage", "cp", f"{state.rstrip('/')}/{name}", name)
    except Failed as failed:
        if "matched no objects" in failed.output:
            return False
        raise
    return True
