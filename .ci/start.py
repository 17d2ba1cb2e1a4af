"""Starts a service in its image's folder, as its root: from exec to the first 200, its memory, and its end on SIGTERM.

    start.py SERVICE FOLDER [PROFILE]    what is deployed, `dist`, has to serve within 50 ms and to hold at most 30 MiB"""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request

service, root = sys.argv[1], sys.argv[2]
deployed = sys.argv[3:] == ["dist"]
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
places = ("LEDGER", "ARTEFACTS", "BUILDS", "CLUSTERS", "WAREHOUSE", "WORKFLOWS")
environment = {f"BURNIN_{place}": f"/tmp/{place.lower()}" for place in places} | {
    "PORT": str(port),
    "BURNIN_AUTH": "platform",
    "BURNIN_LOG": "warn",
    "BURNIN_PROJECT": "nowhere",
    # Nobody listens there: a service serves before it speaks.
    "PUBSUB_EMULATOR_HOST": "127.0.0.1:9",
}


def healthy() -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=1) as answer:
            return answer.status == 200
    except OSError:
        return False


began = time.monotonic()
# The platform gives each container its /proc.
enter = 'mount --bind /proc "$0/proc" && exec /usr/sbin/chroot --userspec=65532:65532 "$0" /service'
process = subprocess.Popen(["unshare", "--mount", "sh", "-c", enter, root], env=environment)
while not healthy():
    if process.poll() is not None or time.monotonic() - began > 20:
        sys.exit(f"{service} does not serve: exit {process.poll()}")
    time.sleep(0.001)
took = time.monotonic() - began
with open(f"/proc/{process.pid}/status") as status:
    resident = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
with urllib.request.urlopen(f"http://127.0.0.1:{port}/about", timeout=1) as answer:
    assert service in answer.read().decode()
process.send_signal(signal.SIGTERM)
told = time.monotonic()
assert process.wait(timeout=6) == 0, f"{service} ended with {process.returncode}"
ended = time.monotonic() - told
print(f"{service:12} serves after {took * 1000:.0f} ms, {resident / 1024:.1f} MiB, ends {ended * 1000:.0f} ms after SIGTERM")
if deployed and (took > 0.05 or resident > 30 * 1024):
    sys.exit(f"{service}: expected to serve within 50 ms and to hold at most 30 MiB; once more, if others had the processor")
