"""Calls of other programs: each argument is one word, output is printed immediately, a failure names its cause."""

import json
import re
import shlex
import subprocess
import sys

# Patterns of a program's output with their meaning. The first match is reported.
CAUSES = [
    (r"Error acquiring the state lock", "LOCKED: Terraform's state is locked, by another deployment or by one that was killed"),
    (r"ZONE_RESOURCE_POOL_EXHAUSTED|VM_MIN_COUNT_NOT_REACHED|INSUFFICIENT_CAPACITY|Requested minimum count", "STOCKOUT: the zone has no capacity for this machine type"),
    (r"Quota '[^']*' exceeded|QUOTA_EXCEEDED", "QUOTA: the project's quota is exhausted"),
    (r"is already being used by", "IN_USE: a foreign resource uses the network"),
    (r"Timeout while waiting for|timeout while waiting for state", "TIMEOUT: a machine or an image was not ready within its timeout"),
    (r"PERMISSION_DENIED|Error 403|does not have permission", "PERMISSION: the account lacks a permission"),
    (r"Reservation .* not found|The resource '.*/reservations/.*' was not found", "RESERVATION: the zone has no such reservation"),
]


class Failed(Exception):
    """A failed call; `output` is the program's output."""

    def __init__(self, words, code, output):
        self.code, self.output = code, output
        cause = next((meaning for pattern, meaning in CAUSES if re.search(pattern, output)), None)
        # A finding of this workflow's scripts on a node is more specific than any of these patterns.
        found = re.search(r"(PREFLIGHT|STORAGE|CONTAINER|AGENT): .*", output)
        cause = found[0] if found else cause
        last = next((line for line in reversed(output.splitlines()) if line.strip()), "no output")
        super().__init__(f"{words[0]} {words[1] if len(words) > 1 else ''} failed with exit status {code}: {cause or last.strip()[:300]}")


def call(words, shown=True, stdin=None, timeout=None):
    """Calls a program and returns its standard output. `stdin`: text for its standard input; `timeout` in seconds."""
    print("+", shlex.join(words), flush=True)
    child = subprocess.Popen(words, stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT if shown else subprocess.PIPE, text=True, errors="replace")
    if not shown or stdin is not None or timeout is not None:
        try:
            output, errors = child.communicate(stdin, timeout)
        except subprocess.TimeoutExpired:
            child.kill()
            output, errors = child.communicate()
            raise Failed(words, 124, f"{output}{errors or ''}\ntimeout after {timeout} s") from None
        if shown:
            print(output, end="", flush=True)
    else:
        lines = []
        for line in child.stdout:
            print(line, end="", flush=True)
            lines.append(line)
        output, errors = "".join(lines), ""
    if child.wait() != 0:
        raise Failed(words, child.returncode, output + (errors or ""))
    return output


def at(wanted, machine, command, script=None, timeout=120):
    """Runs a command on a machine through Google's tunnel, because the machine has no public address."""
    words = ["gcloud", "compute", "ssh", machine, f"--project={wanted['project']}", f"--zone={wanted['zone']}",
             "--tunnel-through-iap", "--quiet", f"--command={command}"]
    return call(words, stdin=script, timeout=timeout)


def active_account():
    """Requires an active account in gcloud: without one Terraform's clean-up, which calls gcloud, would fail."""
    if not json.loads(call(["gcloud", "auth", "list", "--filter=status:ACTIVE", "--format=json"], shown=False)):
        raise ValueError("gcloud: expected an active account, found none; run `gcloud auth login` or give the build a service account")


def read_parameters():
    """Parameters written by parameters.py."""
    with open("asked.json", encoding="utf-8") as file:
        return json.load(file)


def pins():
    with open("pins.json", encoding="utf-8") as file:
        return json.load(file)


def run_step(step):
    """Runs a step. An error becomes the last line of its output, and the exit code is 1."""
    try:
        step()
    except (Failed, OSError, ValueError) as error:
        print(f"FAILED: {error}", file=sys.stderr)
        sys.exit(1)
