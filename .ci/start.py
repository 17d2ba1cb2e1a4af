"""Starts a service with its image's folder as root. Measures the time from exec to the first response 200, the resident memory, and
the time from SIGTERM to the exit.

    start.py SERVICE FOLDER [PROFILE]    limits of the profile `dist`: 50 ms to the first response, 30 MiB of memory"""

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
    # An unused port: a service must respond before it connects to Pub/Sub.
    "PUBSUB_EMULATOR_HOST": "127.0.0.1:9",
}


def healthy() -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=1) as response:
            return response.status == 200
    except OSError:
        return False


began = time.monotonic()
# The platform mounts /proc in each container.
enter = 'mount --bind /proc "$0/proc" && exec /usr/sbin/chroot --userspec=65532:65532 "$0" /service'
process = subprocess.Popen(["unshare", "--mount", "sh", "-c", enter, root], env=environment)
while not healthy():
    if process.poll() is not None or time.monotonic() - began > 20:
        sys.exit(f"{service} does not respond: exit status {process.poll()}")
    time.sleep(0.001)
took = time.monotonic() - began
with open(f"/proc/{process.pid}/status") as status:
    resident = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
with urllib.request.urlopen(f"http://127.0.0.1:{port}/about", timeout=1) as response:
    assert service in response.read().decode()
process.send_signal(signal.SIGTERM)
signalled = time.monotonic()
assert process.wait(timeout=6) == 0, f"{service}: exit status {process.returncode}"
ended = time.monotonic() - signalled
print(f"{service:12} responds after {took * 1000:.0f} ms, {resident / 1024:.1f} MiB, ends {ended * 1000:.0f} ms after SIGTERM")
if deployed and (took > 0.05 or resident > 30 * 1024):
    sys.exit(f"{service}: expected a response within 50 ms and at most 30 MiB; run it again if the host was busy")
