"""A pod and the other pods: what it is, how they talk, what it leaves. Python's own library only."""

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
    """What ends a pod: its exit status, and why."""

    def __init__(self, status, reason):
        super().__init__(reason)
        self.status, self.reason = status, reason


def say(words):
    """To standard output, and to the pod's own log."""
    tell((time.strftime("%FT%TZ ", time.gmtime()) + words + "\n").encode())


def tell(line):
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
    with open(LOG, "ab") as log:
        log.write(line)


def program(words, limit_s, file=None):
    """Runs a program in a group of its own, tells its output as it comes, keeps it in `file` too. Gives its exit status,
    as a shell would say it, and 124 when it was ended for its time."""
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
                tell(line)
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
    """Keys from the release's secret, sshd's and ssh's settings, NCCL's settings for the ranks of this pod."""
    os.makedirs(RUN, exist_ok=True)
    public = {}
    for name in ("user", "host"):
        key = os.path.join(RUN, f"{name}_key")
        shutil.copyfile(os.path.join(KEYS, name), key)
        os.chmod(key, 0o600)
        derived = subprocess.run(["ssh-keygen", "-y", "-f", key], capture_output=True, text=True, check=False)
        if derived.returncode:
            raise Failed(85, f"ssh: the release's {name} key cannot be read: {derived.stderr.strip()}")
        public[name] = " ".join(derived.stdout.split()[:2])
    write("authorized_keys", public["user"] + "\n")
    write("known_hosts", f"testbed {public['host']}\n")
    write("sshd_config", "\n".join((
        f"Port {PORT}", f"HostKey {RUN}/host_key", f"AuthorizedKeysFile {RUN}/authorized_keys", f"PidFile {RUN}/sshd.pid",
        "AuthenticationMethods publickey", "PermitRootLogin prohibit-password", "PasswordAuthentication no",
        "KbdInteractiveAuthentication no", "UsePAM no", "StrictModes no", "MaxStartups 1024", "MaxSessions 1024", *image(), "")))
    # Every pod of the release has the same host key, which nobody else has: who answers with another one is not ours.
    write("ssh_config", "\n".join((
        "Host *", f"Port {PORT}", f"IdentityFile {RUN}/user_key", "IdentitiesOnly yes", "HostKeyAlias testbed",
        f"UserKnownHostsFile {RUN}/known_hosts", "StrictHostKeyChecking yes", "BatchMode yes", "ConnectTimeout 5",
        "ServerAliveInterval 15", "ServerAliveCountMax 4", "LogLevel ERROR", "")))
    settings = {**plan["nccl"], "NCCL_SOCKET_IFNAME": plan["socket_interface"]}
    write("nccl.env", "".join(f"export {name}={shlex.quote(value)}\n" for name, value in settings.items()))


def image():
    """The image's PATH and libraries for what ssh starts: sshd gives a session none of its own environment (sshd_config, SetEnv)."""
    given = [f"{name}={os.environ[name]}" for name in ("PATH", "LD_LIBRARY_PATH") if os.environ.get(name)]
    return ["SetEnv " + " ".join(f'"{each}"' for each in given)] if given else []


def write(name, text):
    path = os.path.join(RUN, name)
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".new", path)


def serve():
    """sshd, for as long as the pod lives."""
    if SSHD.startswith("/usr"):
        os.makedirs("/run/sshd", exist_ok=True)
    with open(os.path.join(RUN, "sshd.log"), "ab") as log:
        return subprocess.Popen([SSHD, "-D", "-e", "-f", os.path.join(RUN, "sshd_config")], stdin=subprocess.DEVNULL,
                                stdout=log, stderr=log)


def look(plan, index):
    """What this pod is and whether its GPUs are fit; reported over ssh."""
    query = "--query-gpu=index,name,pci.bus_id,driver_version,ecc.errors.uncorrected.volatile.total"
    gpus, problems = [], []
    try:
        smi = subprocess.run(["nvidia-smi", query, "--format=csv,noheader,nounits"], capture_output=True, text=True,
                             timeout=120, check=False)
        gpus = [line.split(", ") for line in smi.stdout.splitlines() if line.strip()]
        if smi.returncode:
            problems.append(f"nvidia-smi ended with {smi.returncode}: {(smi.stderr or smi.stdout).strip()[-200:]}")
    except (OSError, subprocess.TimeoutExpired) as error:
        problems.append(f"nvidia-smi: {error}")
    if len(gpus) != plan["gpus_per_node"]:
        problems.append(f"expected {plan['gpus_per_node']} GPUs, found {len(gpus)}")
    problems += [f"GPU {gpu[0]} ({gpu[2]}): uncorrected ECC errors: {gpu[-1]}" for gpu in gpus if gpu[-1] != "0"]
    found = {"index": index, "hostname": os.uname().nodename if "TESTBED_HOSTNAME" not in os.environ
             else os.environ["TESTBED_HOSTNAME"], "pod": os.environ.get("TESTBED_POD", ""),
             "node": os.environ.get("TESTBED_NODE", ""), "gpus": gpus, "problems": problems}
    say(f"pod {index} is {found['pod']} on node {found['node']}: {len(gpus)} GPUs, {'; '.join(problems) or 'fit'}")
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


def ask(plan, index, words, limit_s=30):
    """A command on another pod. Gives its exit status and what it said; 255 is ssh's own."""
    command = ["ssh", "-F", os.path.join(RUN, "ssh_config"), host(plan, index), shlex.join(words)]
    try:
        asked = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired:
        return 255, b"", f"no answer in {limit_s} s"
    return asked.returncode, asked.stdout, asked.stderr.decode(errors="replace").strip()[-200:]


def ask_all(plan, indexes, words):
    """The same of many, 32 at a time: each one's answer by its index."""
    answers, waiting, lock = {}, list(indexes), threading.Lock()

    def work():
        while True:
            with lock:
                if not waiting:
                    return
                index = waiting.pop(0)
            answers[index] = ask(plan, index, words)

    threads = [threading.Thread(target=work) for _ in range(min(32, len(waiting)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers
