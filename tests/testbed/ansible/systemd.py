#!/usr/bin/python3
"""Stand-in for systemctl and journalctl on simulated hosts, which have no systemd: runs the services in /etc/systemd/system, with
their drop-ins, as their user, and restarts them. Unknown settings and commands are errors.
"""

import configparser
import glob
import os
import pwd
import shlex
import signal
import subprocess
import sys
import time

UNITS, RUN = "/etc/systemd/system", "/run/units"
WANTED = f"{UNITS}/multi-user.target.wants"
KNOWN = {"Unit": {"Description", "After", "Wants", "StartLimitIntervalSec"}, "Install": {"WantedBy"},
         "Service": {"User", "Environment", "ExecStart", "Restart", "RestartSec"}}


class Repeated(dict):
    """Collects the values of a repeated setting, in the order of the file."""

    def __setitem__(self, key, value):
        earlier = self.get(key)
        if isinstance(value, list) and isinstance(earlier, (str, list)):
            value = (earlier if isinstance(earlier, list) else [earlier]) + value
        super().__setitem__(key, value)


def read(unit):
    """The settings of a unit: section, name, value. All `Environment` lines are combined."""
    parser = configparser.RawConfigParser(dict_type=Repeated, strict=False, delimiters=("=",), comment_prefixes=("#", ";"))
    parser.optionxform = str
    # Drop-ins of a unit a-b.service are also in a-.service.d.
    words = unit.removesuffix(".service").split("-")
    folders = [f"{UNITS}/{'-'.join(words[:n])}-.service.d" for n in range(1, len(words))] + [f"{UNITS}/{unit}.d"]
    parser.read([f"{UNITS}/{unit}", *(file for folder in folders for file in sorted(glob.glob(f"{folder}/*.conf")))])
    for section in parser.sections():
        unknown = set(parser[section]) - KNOWN.get(section, set())
        if unknown:
            sys.exit(f"{unit}: [{section}] {', '.join(unknown)}: not supported here; extend KNOWN in systemd.py")
    return parser


def pid_of(unit):
    """The process that supervises the service, or None."""
    try:
        with open(f"{RUN}/{unit}.pid", encoding="utf-8") as file:
            pid = int(file.read())
        # Read /proc instead of using `kill -0`, because the login user may query the state but not send signals.
        return pid if os.path.exists(f"/proc/{pid}") else None
    except (OSError, ValueError):
        return None


def supervise(unit):
    """Runs the service until a signal arrives, and restarts it."""
    service = read(unit)["Service"]
    user = pwd.getpwnam(service["User"])
    environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin", "HOME": user.pw_dir, "USER": user.pw_name,
                   **dict(word.split("=", 1) for word in shlex.split(service["Environment"]))}
    log = open(f"{RUN}/{unit}.log", "ab", buffering=0)
    child, stopping = None, False

    def stop(number, _):
        nonlocal stopping
        stopping = True
        if child is None:
            os._exit(0)
        # SIGALRM arrives 30 s later if the service is still running.
        child.send_signal(signal.SIGKILL if number == signal.SIGALRM else signal.SIGTERM)
        signal.alarm(30)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGALRM, stop)
    while not stopping:
        try:
            child = subprocess.Popen(shlex.split(service["ExecStart"]), env=environment, cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                     user=user.pw_uid, group=user.pw_gid, extra_groups=os.getgrouplist(user.pw_name, user.pw_gid))
            child.wait()
        except OSError as error:
            log.write(f"{error}\n".encode())
        child = None
        if not stopping:
            time.sleep(float(service.get("RestartSec", "0.1")))
    os._exit(0)


def start(unit):
    if pid_of(unit) is None:
        os.makedirs(RUN, exist_ok=True)
        pid = os.fork()
        if pid == 0:
            os.setsid()
            null = os.open("/dev/null", os.O_RDWR)
            for stream in range(3):
                os.dup2(null, stream)
            supervise(unit)
        with open(f"{RUN}/{unit}.pid", "w", encoding="utf-8") as file:
            file.write(str(pid))


def stop(unit):
    pid = pid_of(unit)
    if pid is not None:
        os.kill(pid, signal.SIGTERM)
        while pid_of(unit) is not None:
            time.sleep(0.05)


def link(unit):
    return f"{WANTED}/{unit}"


def systemctl(verb, *words):
    if verb == "daemon-reload":
        return 0
    # `-l`: do not shorten the output.
    (unit,) = (word if "." in word else f"{word}.service" for word in words if word != "-l")
    if not os.path.exists(f"{UNITS}/{unit}"):
        if verb == "show":
            print("LoadState=not-found\nActiveState=inactive")
            return 0
        return f"Unit {unit} could not be found."
    enabled, active = os.path.lexists(link(unit)), pid_of(unit) is not None
    if verb == "show":
        print(f"Id={unit}\nLoadState=loaded\nActiveState={'active' if active else 'inactive'}\nUnitFileState={'enabled' if enabled else 'disabled'}")
    elif verb == "is-active":
        print("active" if active else "inactive")
        return 0 if active else 3
    elif verb == "is-enabled":
        print("enabled" if enabled else "disabled")
        return 0 if enabled else 1
    elif verb == "enable" and not enabled:
        os.makedirs(WANTED, exist_ok=True)
        os.symlink(f"{UNITS}/{unit}", link(unit))
    elif verb == "disable" and enabled:
        os.unlink(link(unit))
    elif verb in ("stop", "restart", "start"):
        if verb != "start":
            stop(unit)
        if verb != "stop":
            start(unit)
    elif verb not in ("enable", "disable"):
        return f"Unknown command verb {verb}."
    return 0


def journalctl(*words):
    with open(f"{RUN}/{words[words.index('--unit') + 1]}.log", encoding="utf-8", errors="replace") as file:
        print("".join(file.readlines()[-int(words[words.index("--lines") + 1]):]), end="")
    return 0


if __name__ == "__main__":
    sys.exit(globals()[os.path.basename(sys.argv[0])](*sys.argv[1:]))
