"""Calls of other programs: every argument is one word, output is shown at once, and a failure names its cause."""

import json
import re
import shlex
import subprocess
import sys

# Patterns of a program's output with their meaning. The first match is reported.
CAUSES = [
    (r"Error acquiring the state lock", "LOCKED: another deployment holds Terraform's state, or one was killed"),
    (r"ZONE_RESOURCE_POOL_EXHAUSTED|VM_MIN_COUNT_NOT_REACHED|INSUFFICIENT_CAPACITY|Requested minimum count", "STOCKOUT: the zone has no such machines now"),
    (r"Quota '[^']*' exceeded|QUOTA_EXCEEDED", "QUOTA: the project's quota does not suffice"),
    (r"is already being used by", "IN_USE: something that is not ours uses the network"),
    (r"Timeout while waiting for|timeout while waiting for state", "TIMEOUT: a machine or an image did not come in time"),
    (r"PERMISSION_DENIED|Error 403|does not have permission", "PERMISSION: the account may not do that"),
    (r"Reservation .* not found|The resource '.*/reservations/.*' was not found", "RESERVATION: there is no such reservation in the zone"),
]


class Failed(Exception):
    """A failed call; `said` is its output."""

    def __init__(self, words, code, said):
        self.code, self.said = code, said
        cause = next((meaning for pattern, meaning in CAUSES if re.search(pattern, said)), None)
        # Findings of our own scripts on a node are separate lines.
        found = re.search(r"(PREFLIGHT|STORAGE|CONTAINER|AGENT): .*", said)
        cause = found[0] if found else cause
        last = next((line for line in reversed(said.splitlines()) if line.strip()), "it said nothing")
        super().__init__(f"{words[0]} {words[1] if len(words) > 1 else ''} ended with {code}: {cause or last.strip()[:300]}")


def call(words, shown=True, given=None, timeout=None):
    """Calls a program and returns its standard output."""
    print("+", shlex.join(words), flush=True)
    child = subprocess.Popen(words, stdin=subprocess.DEVNULL if given is None else subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT if shown else subprocess.PIPE, text=True, errors="replace")
    if not shown or given is not None or timeout is not None:
        try:
            said, errors = child.communicate(given, timeout)
        except subprocess.TimeoutExpired:
            child.kill()
            said, errors = child.communicate()
            raise Failed(words, 124, f"{said}{errors or ''}\nno answer after {timeout} s") from None
        if shown:
            print(said, end="", flush=True)
    else:
        lines = []
        for line in child.stdout:
            print(line, end="", flush=True)
            lines.append(line)
        said, errors = "".join(lines), ""
    if child.wait() != 0:
        raise Failed(words, child.returncode, said + (errors or ""))
    return said


def at(wanted, machine, command, script=None, timeout=120):
    """Runs a command on a machine through Google's tunnel, because the machine has no public address."""
    words = ["gcloud", "compute", "ssh", machine, f"--project={wanted['project']}", f"--zone={wanted['zone']}",
             "--tunnel-through-iap", "--quiet", f"--command={command}"]
    return call(words, given=script, timeout=timeout)


def active_account():
    """Requires an account of gcloud. Terraform's own clean-up calls gcloud, and fails late without one."""
    if not json.loads(call(["gcloud", "auth", "list", "--filter=status:ACTIVE", "--format=json"], shown=False)):
        raise ValueError("gcloud: expected an active account, found none; run `gcloud auth login` or give the build a service account")


def read_parameters():
    """Parameters written by parameters.py."""
    with open("asked.json", encoding="utf-8") as file:
        return json.load(file)


def pins():
    with open("pins.json", encoding="utf-8") as file:
        return json.load(file)


def end(step):
    """Runs a step; its failure is its last line."""
    try:
        step()
    except (Failed, OSError, ValueError) as error:
        print(f"FAILED: {error}", file=sys.stderr)
        sys.exit(1)
