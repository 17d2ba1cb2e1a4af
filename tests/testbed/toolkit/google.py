"""Stand-in for gcloud: lists and deletes resources, copies objects, and runs commands for ssh on this host."""

import glob
import json
import os
import re
import shutil
import subprocess
import sys

from world import ROOT, World, fail, fault, recorded

KINDS = {("compute", "instances"): "instance", ("compute", "instance-templates"): "instance template", ("compute", "disks"): "disk",
         ("compute", "images"): "image", ("compute", "addresses"): "address", ("compute", "resource-policies"): "resource policy",
         ("compute", "routers"): "router", ("compute", "firewall-rules"): "firewall rule", ("compute", "networks", "subnets"): "subnetwork",
         ("compute", "networks"): "network", ("filestore", "instances"): "file store", ("storage", "buckets"): "bucket"}
HERE = os.path.dirname(os.path.abspath(__file__))


def matches(thing, wanted):
    """Evaluates a filter in the form that the steps use: terms with AND, joined by OR."""
    def term(text):
        key, sign, value = re.fullmatch(r"([A-Za-z.-]+)([=~])(.*)", text).groups()
        if key == "networkInterfaces.networkIP":
            found = thing.get("address", "")
        elif key.startswith("labels."):
            found = thing.get("labels", {}).get(key[len("labels."):], "")
        else:
            found = "/" + thing.get(key, "") if key == "network" else thing.get(key, "")
        return found == value if sign == "=" else re.search(value, found) is not None

    return any(all(term(text) for text in either.split(" AND ")) for either in wanted.split(" OR "))


def split(words):
    flags = dict(word[2:].partition("=")[::2] for word in words if word.startswith("--"))
    return flags, [word for word in words if not word.startswith("--")]


def objects(words):
    flags, rest = split(words)
    local = lambda name: f"{ROOT}/gcs/{name[len('gs://'):]}" if name.startswith("gs://") else name
    if rest[0] == "ls":
        found = sorted(glob.glob(local(rest[1])))
        if not found:
            fail(f"ERROR: (gcloud.storage.ls) One or more URLs matched no objects.")
        return print("\n".join("gs://" + os.path.relpath(path, f"{ROOT}/gcs") for path in found))
    source, target = local(rest[1]), local(rest[2])
    if flags.get("if-generation-match") == "0" and os.path.exists(target):
        fail("ERROR: HTTPError 412: At least one of the pre-conditions you specified did not hold.")
    if not os.path.exists(source):
        fail(f"ERROR: The following URLs matched no objects or files: {rest[1]}")
    os.makedirs(os.path.dirname(target) or ".", exist_ok=True)
    shutil.copyfile(source, target)


def machine(name):
    with World() as world:
        if name not in world.things.get("instance", {}):
            fail(f"ERROR: (gcloud.compute.ssh) Could not fetch resource: - The resource '{name}' was not found")
    if message := fault("ssh"):
        fail(message, 255)
    home = f"{ROOT}/home"
    os.makedirs(home, exist_ok=True)
    return home


def ssh(words):
    flags, rest = split(words)
    for flag in ("project", "zone", "tunnel-through-iap", "quiet", "command"):
        if flag not in flags:
            fail(f"ERROR: --{flag} is missing")
    home = machine(rest[0])
    command = flags["command"]
    if "-lustre-" in rest[0]:  # a Lustre server: its network probe succeeds
        return
    environment = dict(os.environ, PATH=f"{HERE}/node:{os.environ['PATH']}", HOME=home,
                       AGENT_ROOT=f"{ROOT}/login", AGENT_PATIENCE="1")
    sys.exit(subprocess.run(["bash", "-c", command], cwd=home, env=environment, check=False).returncode)


def scp(words):
    flags, (source, target) = split(words)
    name, path = target.split(":")
    shutil.copytree(source, f"{machine(name)}/{path}/{os.path.basename(source)}", dirs_exist_ok=True)


def describe(kind, words):
    flags, rest = split(words)
    if kind == "reservations":
        with open(f"{ROOT}/reservations.json", encoding="utf-8") as file:
            known = json.load(file)
        if rest[0] not in known:
            fail(f"ERROR: (gcloud.compute.reservations.describe) The resource 'projects/p/zones/z/reservations/{rest[0]}' was not found")
        return print(json.dumps(known[rest[0]]))
    print("READY")


def subscriptions(verb, flags, rest):
    if not flags.get("project"):
        fail("ERROR: (gcloud.pubsub.subscriptions) The required property [project] is not currently set.")
    with World() as world:
        if verb == "create":
            labels = dict(label.split("=") for label in flags["labels"].split(","))
            return world.add("subscription", rest[0], labels=labels, topic=flags["topic"])
        known = world.things.setdefault("subscription", {})
        if verb == "list":
            full = lambda thing: thing | {"name": f"projects/{flags['project']}/subscriptions/{thing['name']}"}
            return print(json.dumps([full(thing) for thing in known.values() if matches(thing, flags["filter"])]))
        if message := fault("delete-subscription"):
            fail(message)
        known.pop(rest[0])
        # The subscription's grants are removed with it.
        granted = world.things.get("right", {})
        for name in [name for name in granted if f" on {rest[0]} of " in name]:
            granted.pop(name)


def rights(words):
    """IAM bindings, stored as resources, so that a test finds remaining bindings."""
    flags, rest = split(words[3:])
    if message := fault("right"):
        fail(message)
    name = f"{flags['role']} on {rest[0]} of {flags['member']}"
    with World() as world:
        known = world.things.setdefault("right", {})
        if words[2].startswith("add"):
            known[name] = {"name": name}
        elif known.pop(name, None) is None:
            fail("ERROR: (gcloud) Policy binding with the specified principal, role, and condition not found!")


def secret(words):
    flags, (version,) = split(words)
    with open(f"{ROOT}/secrets/{flags['secret']}-{version}", "rb") as source, open(flags["out-file"], "wb") as target:
        shutil.copyfileobj(source, target)


def main():
    _, *words = sys.argv[1:]
    recorded("gcloud", words)
    if words[:2] == ["auth", "list"]:
        return print("[]" if fault("auth") else '[{"account": "builder@my-project.iam.gserviceaccount.com", "status": "ACTIVE"}]')
    if words[:2] in (["storage", "cp"], ["storage", "ls"]):
        return objects(words[1:])
    if words[:3] in (["compute", "reservations", "describe"], ["compute", "images", "describe"]):
        return describe(words[1], words[3:])
    if words[:3] == ["secrets", "versions", "access"]:
        return secret(words[3:])
    if words[:2] == ["compute", "ssh"]:
        return ssh(words[2:])
    if words[:2] == ["compute", "scp"]:
        return scp(words[2:])
    if words[:3] == ["compute", "instances", "describe"]:
        return print(json.dumps({"name": words[3], "serviceAccounts": [{"email": "login@my-project.iam.gserviceaccount.com"}]}))
    if words[:2] == ["pubsub", "subscriptions"] and words[2] in ("list", "create", "delete"):
        return subscriptions(words[2], *split(words[3:]))
    if words[2].endswith("-iam-policy-binding"):
        return rights(words)
    depth = 3 if tuple(words[:3]) in KINDS else 2
    kind, verb = KINDS.get(tuple(words[:depth])), words[depth]
    flags, rest = split(words[depth + 1:])
    if kind is None or "project" not in flags:
        fail(f"ERROR: (gcloud) Invalid choice: {words[:3]}")
    with World() as world:
        things = world.things.setdefault(kind, {})
        if verb == "list":
            return print(json.dumps([thing for thing in things.values() if matches(thing, flags["filter"])]))
        if kind in ("instance", "disk") and "zone" not in flags:
            fail("ERROR: (gcloud) Underspecified resource: specify --zone")
        if kind == "resource policy" and "region" not in flags:
            fail("ERROR: (gcloud.compute.resource-policies.delete) Underspecified resource: specify --region")
        if message := fault(f"delete-{kind.replace(' ', '-')}"):
            fail(message)
        things.pop(rest[0])


if __name__ == "__main__":
    main()
