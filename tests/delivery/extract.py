"""Extracts the commands and flags of gcloud, bq, docker, terraform and curl that the scripts and docs/RUNBOOK.md use, and their siblings,
from the programs installed on this host: extract.py > sdk.json

gcloud: `data/cli/gcloud_completions.py` of the SDK, which its shell completion reads, has all commands with their flags; the synopsis of
`gcloud COMMAND --help` states the arguments and the required flags. The other programs: their own help.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

# Commands, and groups whose commands are extracted without their subgroups.
GCLOUD = (
    "artifacts/repositories/describe", "auth/application-default/login", "auth/configure-docker", "auth/login", "auth/print-identity-token",
    "builds/submit", "config/set", "projects/describe", "pubsub/subscriptions", "pubsub/topics", "run/revisions", "run/services", "scheduler/jobs",
    "secrets", "secrets/versions", "services", "storage/buckets", "storage/cat", "storage/cp", "storage/ls", "storage/rm", "storage/rsync")
DOCKER = ("build", "push", "inspect", "login", "pull", "tag")
TERRAFORM = ("init", "plan", "apply", "destroy", "output", "import", "show", "validate", "state/list", "state/rm", "state/mv", "state/show")
BQ = ("show", "ls", "query")


def output(*words):
    plain = {**os.environ, "PAGER": "cat", "TERM": "dumb", "TF_CLI_CONFIG_FILE": "/dev/null"}
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=plain, check=False)
    return re.sub(r"\x1b\[[0-9;]*m|.\x08", "", done.stdout)


def synopsis(path):
    """Positional arguments of a command of gcloud, an optional one in brackets, and its required flags."""
    text = output("gcloud", *path, "--help")
    found = re.search(r"SYNOPSIS\n(.*?)\n\n", text, re.S)
    words = " ".join(found.group(1).split()).removeprefix("gcloud " + " ".join(path)).strip()
    words = words.replace("[GCLOUD_WIDE_FLAG ...]", "")
    outside = words
    while "[" in outside:
        inner = re.sub(r"\[[^\[\]]*\]", "", outside)
        if inner == outside:
            break
        outside = inner
    # `(A | B)`: one of the flags is required; the check does not decide which.
    outside = re.sub(r"\([^()]*\|[^()]*\)", "", outside)
    required = re.findall(r"--[\w-]+", re.sub(r" : [^)]*", "", outside))
    positional = re.findall(r"(?<![\w=-])[A-Z][A-Z0-9_/:-]+(?![\w-])", re.sub(r"--[\w-]+(=\S+)?", "", re.sub(r" : [^)]*", "", outside)))
    optional = re.findall(r"(?<![=\w])\[?\[([A-Z][A-Z0-9_-]+)(?= |\]| \.\.\.)", words)
    many = "..." in re.sub(r"--[\w-]+=\[?\S*", "", words)
    return {"required": sorted(set(required)), "arguments": [len(positional), None if many else len(positional) + len(optional)]}


def gcloud():
    root = pathlib.Path(shutil.which("gcloud")).resolve().parent.parent
    sys.path.insert(0, str(root / "data" / "cli"))
    from gcloud_completions import STATIC_COMPLETION_CLI_TREE as tree

    commands = {}
    for name in GCLOUD:
        path = name.split("/")
        node = tree
        for word in path:
            node = node["commands"][word]
        leaves = {word: of for word, of in node["commands"].items() if not of["commands"]} if node["commands"] else {"": node}
        for word, of in leaves.items():
            whole = [*path, *([word] if word else [])]
            commands[" ".join(whole)] = {"flags": of["flags"], **synopsis(whole)}
    version = (root / "VERSION").read_text().strip()
    return f"Google Cloud SDK {version}", {"flags": tree["flags"], "commands": commands}


def listed(text, pattern):
    """Flags of a help text: with a value or not."""
    return {found.group("name"): "value" if found.group("value") else "bool" for found in re.finditer(pattern, text, re.M)}


def docker():
    flag = r"^ +(?:-\w, )?(?P<name>--[\w-]+)(?: (?P<value>\w+))?(?:  |$)"
    return output("docker", "--version").strip().rstrip(","), {"flags": {}, "commands": {
        word: {"flags": listed(output("docker", word, "--help"), flag), "required": [], "arguments": [1, None]} for word in DOCKER}}


def terraform():
    flag = r"^ +(?P<name>-[a-z-]+)(?P<value>=\S+| '[^']*')?(?:  |$)"
    commands = {}
    for name in TERRAFORM:
        path = name.split("/")
        commands[" ".join(path)] = {"flags": listed(output("terraform", *path, "-help"), flag), "required": [], "arguments": [0, None]}
    # The help of `apply` and `destroy` refers to the help of `plan`.
    for word in ("apply", "destroy"):
        commands[word]["flags"] = commands["plan"]["flags"] | commands[word]["flags"]
    return output("terraform", "version").splitlines()[0], {"flags": {"-chdir": "value"}, "commands": commands}


def bq():
    flag = r"^ +(?:-(?P<short>\w),)?--(?P<no>\[no\])?(?P<name>\w+):"
    read = lambda text: {
        spelled: "bool" if found.group("no") else "value" for found in re.finditer(flag, text, re.M)
        for spelled in (f"--{found.group('name')}", *([f"-{found.group('short')}"] if found.group("short") else []))}
    return output("bq", "version").strip(), {"flags": read(output("bq", "--help")), "commands": {
        word: {"flags": read(output("bq", "help", word)), "required": [], "arguments": [0, None]} for word in BQ}}


def curl():
    text = output("curl", "--help", "all")
    flags = {}
    for found in re.finditer(r"^ *(?:(-\w), )? *(--[\w.-]+)( <[^>]*>)?", text, re.M):
        for name in filter(None, found.groups()[:2]):
            flags[name] = "value" if found.group(3) else "bool"
    return " ".join(output("curl", "--version").split()[:2]), {"flags": {}, "commands": {"": {"flags": flags, "required": [], "arguments": [1, None]}}}


def main():
    sources, tools = {}, {}
    for tool in (gcloud, bq, docker, terraform, curl):
        sources[tool.__name__], tools[tool.__name__] = tool()
    # Prints one line for each command, so that a diff shows which command changed.
    print(f'{{"from": {json.dumps(sources)}')
    for name, tree in tools.items():
        print(f',"{name}": {{"flags": {json.dumps(tree["flags"], sort_keys=True)}, "commands": {{')
        print(",\n".join(f"{json.dumps(path)}: {json.dumps(of, sort_keys=True)}" for path, of in sorted(tree["commands"].items())))
        print("}}")
    print("}")


if __name__ == "__main__":
    main()
