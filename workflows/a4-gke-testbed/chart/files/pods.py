"""This pod and its connections to the others: health check, ssh, subprocesses, log. Standard library only."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time

RUN = os.environ.get("TESTBED_RUN", "/run/testbed")
KEYS = os.environ.get("TESTBED_KEYS", "/etc/testbed-keys")
SSHD = os.environ.get("TESTBED_SSHD", "/usr/sbin/sshd")
PORT = int(os.environ.get("TESTBED_PORT", "2222"))
POLL = float(os.environ.get("TESTBED_POLL_S", "2"))
LOG = os.path.join(RUN, "pod.log")


class Failed(Exception):
    """Ends a pod with an exit status and a reason."""

    def __init__(self, status, reason):
        super().__init__(reason)
        self.status, self.reason = status, reason


def say(message):
    """Writes a message with the time to standard output and to the pod's log."""
    emit((time.strftime("%FT%TZ ", time.gmtime()) + message + "\n").encode())


def emit(line):
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
    with open(LOG, "ab") as log:
        log.write(line)


def program(words, limit_s, file=None):
    """Runs a program in its own process group, prints its output immediately and appends it to `file`. Returns its exit status
    as a shell does (128 + signal), and 124 after a timeout."""
    ended = threading.Event()
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          start_new_session=True) as child:
        def end():
            ended.set()
            kill(child, signal.SIGTERM)
            hard.start()

        hard = threading.Timer(10, kill, (child, signal.SIGKILL))
        timer = threading.Timer(max(limit_s, 0), end)
        timer.start()
        try:
            for line in child.stdout:
                emit(line)
                if file:
                    file.write(line)
                    file.flush()
            status = child.wait()
        finally:
            timer.cancel()
            hard.cancel()
            kill(child, signal.SIGKILL)
    if ended.is_set():
        return 124
    return status if status >= 0 else 128 - status


def kill(child, number):
    try:
        os.killpg(child.pid, number)
    except ProcessLookupError:
        pass


def prepare(plan):
    """Writes the ssh keys from the release's secret, the settings of sshd and ssh, and NCCL's settings for this pod's ranks."""
    os.makedirs(RUN, exist_ok=True)
    public = {}
    for name in ("user", "host"):
        key = os.path.join(RUN, f"{name}_key")
        shutil.copyfile(os.path.join(KEYS, name), key)
        os.chmod(key, 0o600)
        derived = subprocess.run(["ssh-keygen", "-y", "-f", key], capture_output=True, text=True, check=False)
        if derived.returncode:
            raise Failed(85, f"ssh: cannot read the release's {name} key: {derived.stderr.strip()}")
        public[name] = " ".join(derived.stdout.split()[:2])
    write("authorized_keys", public["user"] + "\n")
    write("known_hosts", f"testbed {public['host']}\n")
    write("sshd_config", "\n".join((
        f"Port {PORT}", f"HostKey {RUN}/host_key", f"AuthorizedKeysFile {RUN}/authorized_keys", f"PidFile {RUN}/sshd.pid",
        "AuthenticationMethods publickey", "PermitRootLogin prohibit-password", "PasswordAuthentication no",
        "KbdInteractiveAuthentication no", "UsePAM no", "StrictModes no", "MaxStartups 1024", "MaxSessions 1024", *image(), "")))
    # All pods of the release share one host key, so a pod with another key is foreign and rejected.
    write("ssh_config", "\n".join((
        "Host *", f"Port {PORT}", f"IdentityFile {RUN}/user_key", "IdentitiesOnly yes", "HostKeyAlias testbed",
        f"UserKnownHostsFile {RUN}/known_hosts", "StrictHostKeyChecking yes", "BatchMode yes", "ConnectTimeout 5",
        "ServerAliveInterval 15", "ServerAliveCountMax 4", "LogLevel ERROR", "")))
    settings = {**plan["nccl"], "NCCL_SOCKET_IFNAME": plan["socket_interface"]}
    write("nccl.env", "".join(f"export {name}={shlex.quote(value)}\n" for name, value in settings.items()))


def image():
    """Passes the image's PATH and library path to ssh sessions: sshd does not pass its own environment (sshd_config, SetEnv)."""
    settings = [f"{name}={os.environ[name]}" for name in ("PATH", "LD_LIBRARY_PATH") if os.environ.get(name)]
    return ["SetEnv " + " ".join(f'"{each}"' for each in settings)] if settings else []


def write(name, text):
    path = os.path.join(RUN, name)
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".new", path)


def serve():
    """Starts sshd for the pod's lifetime."""
    if SSHD.startswith("/usr"):
        os.makedirs("/run/sshd", exist_ok=True)
    with open(os.path.join(RUN, "sshd.log"), "ab") as log:
        return subprocess.Popen([SSHD, "-D", "-e", "-f", os.path.join(RUN, "sshd_config")], stdin=subprocess.DEVNULL,
                                stdout=log, stderr=log)


def inspect(plan, index):
    """Checks the pod's GPUs and writes self.json, which the coordinator reads over ssh."""
    query = "--query-gpu=index,name,pci.bus_id,driver_version,ecc.errors.uncorrected.volatile.total"
    gpus, problems = [], []
    try:
        smi = subprocess.run(["nvidia-smi", query, "--format=csv,noheader,nounits"], capture_output=True, text=True,
                             timeout=120, check=False)
        gpus = [line.split(", ") for line in smi.stdout.splitlines() if line.strip()]
        if smi.returncode:
            problems.append(f"nvidia-smi failed with exit status {smi.returncode}: {(smi.stderr or smi.stdout).strip()[-200:]}")
    except (OSError, subprocess.TimeoutExpired) as error:
        problems.append(f"nvidia-smi: {error}")
    if len(gpus) != plan["gpus_per_node"]:
        problems.append(f"expected {plan['gpus_per_node']} GPUs, found {len(gpus)}")
    problems += [f"GPU {gpu[0]} ({gpu[2]}): uncorrected ECC errors: {gpu[-1]}" for gpu in gpus if gpu[-1] != "0"]
    found = {"index": index, "hostname": os.uname().nodename if "TESTBED_HOSTNAME" not in os.environ
             else os.environ["TESTBED_HOSTNAME"], "pod": os.environ.get("TESTBED_POD", ""),
             "node": os.environ.get("TESTBED_NODE", ""), "gpus": gpus, "problems": problems}
    say(f"pod {index} is {found['pod']} on node {found['node']}: {len(gpus)} GPUs, {'; '.join(problems) or 'healthy'}")
    for gpu in gpus:
        say("  " + ", ".join(gpu))
    try:
        say("RDMA devices: " + (", ".join(sorted(os.listdir("/sys/class/infiniband"))) or "none"))
    except OSError:
        say("RDMA devices: none")
    write("self.json", json.dumps(found))
    return found


def host(plan, index):
    return f"{plan['host_prefix']}{index}.{plan['domain']}"


def run_on(plan, index, words, limit_s=30):
    """Runs a command on another pod. Returns exit status, output and the end of the error output; 255 is ssh's own failure."""
    command = ["ssh", "-F", os.path.join(RUN, "ssh_config"), host(plan, index), shlex.join(words)]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired:
        return 255, b"", f"timeout after {limit_s} s"
    return done.returncode, done.stdout, done.stderr.decode(errors="replace").strip()[-200:]


def run_on_all(plan, indexes, words):
    """Runs a command on several pods, at most 32 at a time. Returns the results by index."""
    results, waiting, lock = {}, list(indexes), threading.Lock()

    def work():
        while True:
            with lock:
                if not waiting:
                    return
                index = waiting.pop(0)
            results[index] = run_on(plan, index, words)

    threads = [threading.Thread(target=work) for _ in range(min(32, len(waiting)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
