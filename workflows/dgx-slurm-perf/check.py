"""Checks the parameters and the inventory before any host is contacted, and writes them to vars.json for the playbooks.

Parameters are environment variables, the substitutions of provision.yaml and release.yaml. All problems are reported together,
each as `place: expected value`, with the exit code 64. Standard library only.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys

GROUPS = ("slurm-master", "slurm-login", "slurm-node", "nfs-server")
PARENT = "slurm-cluster"
HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
ADDRESS = re.compile(r"[A-Za-z0-9:][A-Za-z0-9.:-]{0,252}")
RANGE = re.compile(r"\[(\d+):(\d+)\]")
SECRETS = ("password", "_pass")
MOST_HOSTS = 4096
# The tag v2.17.6, as for A3 Mega: it can also write results as JSON.
NCCL_TESTS, COMMIT = "https://github.com/NVIDIA/nccl-tests.git", "da0b547b1b9c6e3b1d4c15578087874522ae3761"


def one_of(*words):
    return lambda text: text if text in words else None, " or ".join(words)


def matching(pattern, wanted):
    return lambda text: text if re.fullmatch(pattern, text) else None, wanted


def number(least, most):
    def read(text):
        return int(text) if re.fullmatch(r"\d{1,9}", text) and least <= int(text) <= most else None

    return read, f"a number from {least} to {most}"


def truth():
    return lambda text: {"true": True, "false": False}.get(text), "true or false"


def path(empty=False):
    def read(text):
        if text == "":
            return "" if empty else None
        parts = text.split("/")
        good = text.startswith("/") and ".." not in parts and re.fullmatch(r"[A-Za-z0-9_./@+-]{1,1024}", text)
        return text.rstrip("/") or None if good else None

    return read, "an absolute path of letters, digits and any of _.@+- without `..`" + (", or empty" if empty else "")


# A version of a secret in Secret Manager.
SECRET = re.compile(r"projects/([a-z0-9-]{6,30})/secrets/([A-Za-z0-9_-]{1,255})/versions/([0-9]{1,9}|latest)")
BUCKET = r"[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]"


def either(pattern, other, wanted):
    """Accepts a text that matches the pattern or that the reader `other` accepts."""
    return lambda text: text if re.fullmatch(pattern, text) else other[0](text), f"{wanted}, or {other[1]}"


# Each parameter: its name here and in the environment, its default, its reader and the expected value.
PARAMETERS = {
    "cluster": ("_CLUSTER", "dgx", *matching(r"[a-z][a-z0-9-]{0,99}", "a word of a-z, 0-9 and -")),
    "slurm_name": ("_SLURM_NAME", "dgx", *matching(r"[a-z][a-z0-9-]{0,39}", "a word of a-z, 0-9 and -")),
    "share": ("_SHARE", "existing", *one_of("existing", "nfs")),
    "shared_folder": ("_SHARED_FOLDER", "/mnt/shared", *path()),
    "export_folder": ("_EXPORT_FOLDER", "/export/shared", *path()),
    "set_hostnames": ("_SET_HOSTNAMES", "false", *truth()),
    "partition": ("_PARTITION", "batch", *matching(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,39}", "a name of letters, digits, _ and -")),
    "mpi": ("_MPI", "pmix", *one_of("pmix", "pmi2", "none")),
    "gpus": ("_GPUS", "8", *number(0, 64)),
    "gpu_probe": ("_GPU_PROBE", "nvidia-smi", *one_of("nvidia-smi", "devices")),
    "ranks_per_node": ("_RANKS_PER_NODE", "0", *number(0, 1024)),
    "process_tracking": ("_PROCESS_TRACKING", "cgroup", *one_of("cgroup", "linuxproc")),
    "pyxis": ("_PYXIS", "false", *truth()),
    "validate_image": ("_VALIDATE_IMAGE", "", *matching(r"[A-Za-z0-9/][A-Za-z0-9_./:#@+-]{0,400}|", "a container image, or empty")),
    "nccl_tests": ("_NCCL_TESTS", "build", lambda text: text if text == "build" else path()[0](text), "build, or " + path()[1]),
    "nccl_tests_from": ("_NCCL_TESTS_FROM", NCCL_TESTS, *matching(r"(https://|/|file:///)[A-Za-z0-9][A-Za-z0-9_./-]{0,400}", "an https:// URL or an absolute path of a git repository")),
    "nccl_tests_commit": ("_NCCL_TESTS_COMMIT", COMMIT, *matching(r"[0-9a-f]{40}", "a commit of 40 hexadecimal digits")),
    "cuda_home": ("_CUDA_HOME", "/usr/local/cuda", *path()),
    "nccl_home": ("_NCCL_HOME", "", *path(empty=True)),
    "mpi_home": ("_MPI_HOME", "", *path(empty=True)),
    "benchmark_image": ("_BENCHMARK_IMAGE", "", *matching(r"([a-z0-9][a-z0-9.:-]*#)?[a-z0-9][a-z0-9._/-]*:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}|", "REGISTRY#IMAGE:TAG as enroot spells it, or empty")),
    "stop_slurm": ("_STOP_SLURM", "false", *truth()),
    "deepops": ("_DEEPOPS", "", *path(empty=True)),
    "ssh_user": ("_SSH_USER", "", *matching(r"([a-z_][a-z0-9_-]{0,31})?", "a user's name, or empty")),
    "ssh_key": ("_SSH_KEY", "", *either(SECRET, path(empty=True), "projects/PROJECT/secrets/NAME/versions/VERSION")),
    "ssh_password_file": ("_SSH_PASSWORD_FILE", "", *path(empty=True)),
    "sudo_password_file": ("_SUDO_PASSWORD_FILE", "", *path(empty=True)),
    "agent": ("_AGENT", "", *either(rf"gs://{BUCKET}/[A-Za-z0-9_./-]{{1,900}}", path(empty=True), "gs://BUCKET/OBJECT")),
    "agent_sha256": ("_AGENT_SHA256", "", *matching(r"([0-9a-f]{64})?", "a SHA-256 of 64 hexadecimal digits, or empty")),
    "agent_credentials": ("_AGENT_CREDENTIALS", "", *path(empty=True)),
    "agent_account": ("_AGENT_ACCOUNT", "", *matching(r"([a-z][a-z0-9-]{4,28}[a-z0-9]@[a-z][a-z0-9.:-]{4,80}[.]iam[.]gserviceaccount[.]com)?", "a service account's address, or empty")),
    "agent_port": ("_AGENT_PORT", "8089", *number(1024, 65535)),
    "agent_project": ("_BURNIN_PROJECT", "", *matching(r"([a-z][a-z0-9-]{4,28}[a-z0-9])?", "a project's id, or empty")),
    "agent_topics": ("_TOPICS", "burnin-", *matching(r"[A-Za-z][A-Za-z0-9-]{0,40}", "the prefix of the topics' names, such as burnin-")),
    "agent_artefacts": ("_ARTEFACTS", "", *matching(rf"({BUCKET})?", "a bucket's name without gs://, or empty")),
    # Set by Burnin.
    "agent_run": ("_RUN", "", *matching(r"[a-z0-9_-]{0,63}", "a label's value: a-z, 0-9, - and _, at most 63")),
    "agent_expires": ("_EXPIRES", "", *matching(r"[0-9]{0,11}", "seconds since 1970, or empty")),
    "agent_state": ("_STATE", "", *matching(rf"(gs://{BUCKET}/[A-Za-z0-9_./-]{{1,900}}|/[^\0\r\n]{{1,1000}})?", "gs://BUCKET/FOLDER, or an absolute path, or empty")),
}
# Parameters that `_AGENT` requires, and where to find their values.
WITH_AGENT = {
    "agent_sha256": "the program's checksum: sha256sum FILE",
    "agent_credentials": "the path of a credentials file on the controller",
    "agent_account": "the account of these credentials: gcloud iam service-accounts list",
    "agent_project": "the project of Burnin's topics: gcloud pubsub topics list",
    "agent_artefacts": "the artefact bucket: gcloud storage buckets list",
}


def parameters(environment, problems):
    """Reads all parameters and converts them to their types."""
    values = {}
    for name, (variable, default, read, wanted) in PARAMETERS.items():
        text = environment.get(variable, default)
        values[name] = read(text)
        if values[name] is None:
            problems.append(f"{variable}: expected {wanted}, found {text[:80]!r}")
    for name in ("ssh_key", "ssh_password_file", "sudo_password_file"):
        file = values[name]
        if file and not SECRET.fullmatch(file) and not os.access(file, os.R_OK):
            problems.append(f"{PARAMETERS[name][0]}: {file} cannot be read on this host")
    if values["ssh_password_file"] and not shutil.which("sshpass"):
        problems.append("_SSH_PASSWORD_FILE: expected the program sshpass on this host, which Ansible needs for ssh passwords")
    if values["benchmark_image"] and values["nccl_tests"] not in ("build", None):
        problems.append("_BENCHMARK_IMAGE: expected no value with a folder as _NCCL_TESTS: its programs need the libraries of their build")
    if values["agent"]:
        for name, step in WITH_AGENT.items():
            if values[name] == "":
                problems.append(f"{PARAMETERS[name][0]}: expected a value with _AGENT, found no value; {step}")
        if len(values["cluster"] or "") > 63:
            problems.append(f"_CLUSTER: expected at most 63 characters with _AGENT, found {len(values['cluster'])}: the name becomes a label")
    for name, used in (("agent", values["agent"]), ("ssh_key", SECRET.fullmatch(values["ssh_key"] or ""))):
        if used and not shutil.which("gcloud"):
            problems.append(f"{PARAMETERS[name][0]}: expected the program gcloud on this host; on Cloud Build set _TOOLS to an image that has it (tools.Dockerfile)")
    # In a manual run the key would stay next to the workflow's files and be uploaded with them; Burnin's workspaces are temporary.
    if SECRET.fullmatch(values["ssh_key"] or "") and values["agent_state"] == "":
        problems.append("_SSH_KEY: expected the absolute path of a file, because this run was started manually; a secret's version is for runs of Burnin")
    return values


def read_key(secret):
    """Writes a secret's version to the file `ssh_key`, for ssh, and returns its path."""
    project, name, version = SECRET.fullmatch(secret).groups()
    words = ["gcloud", "secrets", "versions", "access", version, f"--secret={name}", f"--project={project}", "--out-file=ssh_key"]
    os.umask(0o077)
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise OSError(f"gcloud cannot read the secret: {(done.stderr.strip().splitlines() or ['no output'])[-1]}")
    return os.path.abspath("ssh_key")


def expand(name):
    """Expands `dgx[01:03]` to three names, as Ansible does."""
    found = RANGE.search(name)
    if not found:
        return [name]
    first, last = found.groups()
    numbers = range(int(first), min(int(last), int(first) + MOST_HOSTS) + 1)
    names = [name[: found.start()] + str(n).zfill(len(first)) + name[found.end() :] for n in numbers]
    return [full for part in names for full in expand(part)][:MOST_HOSTS]


class Inventory:
    """Reads an inventory as written: Ansible would silently merge duplicate hosts."""

    def __init__(self, file, problems, others_allowed):
        self.file, self.problems, self.others_allowed = file, problems, others_allowed
        self.groups = {group: {} for group in GROUPS}
        self.children = {}
        self.addresses = {}
        self.section = ("ungrouped", "hosts")

    def report(self, line, message):
        self.problems.append(f"{self.file}:{line}: {message}")

    def read(self, text):
        for number_, line in enumerate(text.splitlines(), 1):
            line = line.strip()
            if line and line[0] not in "#;":
                self.line(number_, line)
        for group, wanted in (("slurm-master", 1), ("slurm-node", 0)):
            found = len(self.groups[group])
            if found == 0:
                self.problems.append(f"{self.file}: [{group}]: expected at least one host, found none" if not wanted else
                                     f"{self.file}: [{group}]: expected one host, found none")
            elif wanted and found != wanted:
                self.problems.append(f"{self.file}: [{group}]: expected one host, found {found}")
        both = set(self.groups["slurm-master"]) & set(self.groups["slurm-node"])
        for host in sorted(both):
            self.problems.append(f"{self.file}: {host}: expected in [slurm-master] or in [slurm-node], found in both")
        for host in sorted(set(self.groups["nfs-server"]) - set(self.addresses)):
            self.problems.append(f"{self.file}: {host}: expected also in another group, found only in [nfs-server]")

    def line(self, at, line):
        section = re.fullmatch(r"\[([^\]:]+)(?::(vars|children))?\]\s*([#;].*)?", line)
        if line.startswith("[") and section:
            group, kind = section.group(1).strip(), section.group(2) or "hosts"
            self.section = (group, kind)
            if group not in (*GROUPS, PARENT, "all") and not self.others_allowed:
                known = ", ".join((*GROUPS, PARENT))
                self.report(at, f"[{group[:60]}]: unknown group; expected one of {known}")
            return
        group, kind = self.section
        if self.others_allowed and group not in (*GROUPS, PARENT, "all"):
            return
        if kind == "vars":
            self.variable(at, *line.partition("=")[::2])
        elif kind == "children":
            if line.split()[0] not in GROUPS and not self.others_allowed:
                self.report(at, f"[{group}:children]: {line[:60]!r} is an unknown group")
        else:
            self.host(at, group, line)

    def variable(self, at, name, value):
        name = name.strip()
        if any(word in name for word in SECRETS) and "file" not in name:
            self.report(at, f"{name[:60]}: a password is not allowed in the inventory; put it into a file and name it in _SUDO_PASSWORD_FILE")
        elif not re.fullmatch(r"ansible_[a-z_]+|cluster_address|slots", name):
            self.report(at, f"{name[:60]!r}: expected ansible_..., cluster_address or slots")
        elif name in ("ansible_host", "cluster_address") and not ADDRESS.fullmatch(value.strip()):
            self.report(at, f"{name}: expected an address or a name, found {value.strip()[:60]!r}")
        elif name == "slots" and not re.fullmatch(r"[1-9]\d{0,3}", value.strip()):
            self.report(at, f"slots: expected a number from 1 to 9999, found {value.strip()[:60]!r}")

    def host(self, at, group, line):
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            return self.report(at, f"cannot be read: {error}")
        given = dict(word.partition("=")[::2] for word in words[1:])
        for word in words[1:]:
            self.variable(at, *word.partition("=")[::2])
        for host in expand(words[0]):
            if not HOST.fullmatch(host) or host in ("localhost", "all", "ungrouped"):
                self.report(at, f"expected a host's name of letters, digits and -, found {host[:60]!r}")
                self.groups.get(group, {})[host] = at
                continue
            if group == "ungrouped":
                self.report(at, f"{host}: expected in a group, found before the first one")
                continue
            hosts = self.groups.setdefault(group, {})
            if host in hosts:
                self.report(at, f"{host}: duplicate in [{group}], first in line {hosts[host]}")
            hosts[host] = at
            if group == "nfs-server" and not given:
                continue
            address = given.get("ansible_host", self.addresses.get(host, host))
            other = next((name for name, known in self.addresses.items() if known == address and name != host), None)
            if other:
                self.report(at, f"{host}: expected its own address, found {address} of {other}")
            self.addresses[host] = address


def main():
    problems = []
    values = parameters(os.environ, problems)
    file = os.environ.get("_INVENTORY", "inventory")
    inventory = Inventory(file, problems, bool(values["deepops"]))
    try:
        with open(file, encoding="utf-8") as handle:
            inventory.read(handle.read(4 << 20))
    except (OSError, UnicodeDecodeError) as error:
        problems.append(f"_INVENTORY: {file} cannot be read: {error}")
    if values["deepops"] and values["share"] == "nfs":
        problems.append("_SHARE: expected existing with _DEEPOPS, whose playbooks set up NFS")
    servers = inventory.groups["nfs-server"]
    if values["share"] == "nfs" and not values["deepops"] and len(servers) != 1:
        problems.append(f"{file}: [nfs-server]: expected one host for _SHARE=nfs, found {len(servers)}")
    if not problems and SECRET.fullmatch(values["ssh_key"]):
        try:
            values["ssh_key"] = read_key(values["ssh_key"])
        except OSError as error:
            problems.append(f"_SSH_KEY: {error}")
    if problems:
        print("invalid parameters; nothing was changed:", *problems, sep="\n  ", file=sys.stderr)
        return 64
    values["inventory"] = os.path.abspath(file)
    values["workspace"] = os.getcwd()
    values["run_folder"] = f"{values['shared_folder']}/burnin-{values['cluster']}"
    with open("vars.json", "w", encoding="utf-8") as handle:
        json.dump(values, handle, indent=1)
    counts = ", ".join(f"{len(hosts)} in [{group}]" for group, hosts in inventory.groups.items() if hosts)
    print(f"{file}: {counts}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
