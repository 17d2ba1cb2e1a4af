"""Checks the parameters before any resource is created, and writes them to asked.json for the other steps.

Parameters are environment variables, the substitutions of deploy.yaml and destroy.yaml. All problems are reported at
once, each as `name: expected value`; the exit code is 64 then. `parameters.py destroy` checks a teardown's parameters.
Standard library only.
"""

import hashlib
import ipaddress
import json
import os
import re
import sys


def one_of(*words):
    return lambda text: text if text in words else None, " or ".join(word or "empty" for word in words)


def matching(pattern, wanted):
    return lambda text: text if re.fullmatch(pattern, text) else None, wanted


def number(least, most):
    def read(text):
        return int(text) if re.fullmatch(r"[0-9]{1,12}", text) and least <= int(text) <= most else None

    return read, f"a number from {least} to {most}"


def truth():
    return lambda text: {"true": True, "false": False}.get(text), "true or false"


def network(widest, narrowest):
    def read(text):
        try:
            found = ipaddress.IPv4Network(text)
        except ValueError:
            return None
        return text if "/" in text and widest <= found.prefixlen <= narrowest else None

    return read, f"an IPv4 range ADDRESS/LENGTH, /{widest} to /{narrowest}"


def path():
    def read(text):
        good = re.fullmatch(r"/[A-Za-z0-9_.][A-Za-z0-9_./-]{0,200}", text) and ".." not in text.split("/")
        return text.rstrip("/") if good else None

    return read, "an absolute path of letters, digits and any of _.- without `..`"


def nid(text):
    """A Lustre network identifier, or None. Without `@tcp` the mount would fail minutes later."""
    address, at, kind = text.partition("@")
    try:
        ipaddress.IPv4Address(address)
    except ValueError:
        return None
    return text if (at, kind) == ("@", "tcp") else None


NAME = r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?"
URL = r"https://[A-Za-z0-9][A-Za-z0-9.-]*(/[A-Za-z0-9_.~/-]*)?"
SHA256 = matching(r"[0-9a-f]{64}", "a SHA-256 of 64 hexadecimal digits")

# Each parameter of a teardown: its name here and in the environment, its reader and the expected value.
TEARDOWN = {
    "cluster": ("_CLUSTER", *matching(r"[a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?", "a label's value: a-z, 0-9, - and _, at most 63")),
    "keep": ("_KEEP", lambda text: text.split(",") if re.fullmatch(r"(base|image)(,(base|image))?", text) else [] if text == "" else None, "base, image, both with a comma, or empty"),
    "state": ("_STATE", *matching(r"gs://[a-z0-9][a-z0-9._-]{1,220}/[A-Za-z0-9_./-]{1,900}|/[^\0\r\n]{1,1000}", "gs://BUCKET/FOLDER, or an absolute path")),
}
# Additional parameters of a deployment, in the same form.
DEPLOYMENT = {
    "project": ("_PROJECT", *matching(r"[a-z][a-z0-9-]{4,28}[a-z0-9]", "a project's id")),
    "region": ("_REGION", *matching(r"[a-z]{2,20}-[a-z]{2,20}[0-9]{1,2}", "a region such as us-central1")),
    "zone": ("_ZONE", *matching(r"[a-z]{2,20}-[a-z]{2,20}[0-9]{1,2}-[a-z]", "a zone such as us-central1-a")),
    "bucket": ("_STATE_BUCKET", *matching(r"[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]", "a bucket's name without gs://")),
    "run": ("_RUN", *matching(r"[a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?", "a label's value: a-z, 0-9, - and _, at most 63")),
    "expires": ("_EXPIRES", *number(1, 99_999_999_999)),
    "nodes": ("_NODES", *number(2, 512)),
    "provisioning": ("_PROVISIONING", *one_of("reservation", "spot", "on-demand")),
    "reservation": ("_RESERVATION", *matching(f"({NAME})?", "a reservation's name, or empty")),
    "maintenance": ("_MAINTENANCE", *one_of("", "PERIODIC")),
    "source_image": ("_SOURCE_IMAGE", *matching(NAME, "an image's name such as debian-12-bookworm-v20240515")),
    "source_project": ("_SOURCE_PROJECT", *matching(r"[a-z][a-z0-9-]{4,28}[a-z0-9]", "a project's id")),
    "disk_gb": ("_DISK_GB", *number(100, 4000)),
    "base": ("_BASE", *matching(r"([a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?)?", "the name of a cluster whose base was kept, or empty")),
    "image_of": ("_IMAGE", *matching(r"([a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?)?", "the name of a cluster whose image was kept, or empty")),
    "partition": ("_PARTITION", *matching(r"[a-z][a-z0-9]{0,9}", "a name of a-z and 0-9, at most 10")),
    "system_range": ("_SYSTEM_RANGE", *network(12, 20)),
    "gpu_range": ("_GPU_RANGE", *network(8, 16)),
    "monitoring": ("_MONITORING", *truth()),
    "storage": ("_STORAGE", *one_of("filestore", "lustre")),
    "ready_minutes": ("_READY_MINUTES", *number(0, 240)),
    "driver_sha256": ("_GVNIC_SHA256", *matching(r"([0-9a-f]{64})?", "a SHA-256 of 64 hexadecimal digits, or empty")),
    "service_account": ("_SERVICE_ACCOUNT", *matching(r"([a-z][a-z0-9-]{4,28}[a-z0-9]@[a-z][a-z0-9.:-]{4,80}[.]iam[.]gserviceaccount[.]com)?", "a service account's address, or empty")),
    "headers_from": ("_HEADERS_FROM", *matching(f"({URL})?", "an https:// URL, or empty")),
    "toolkit_apt": ("_CONTAINER_TOOLKIT_FROM", *matching(URL, "an https:// URL")),
    "tcpxo_apt": ("_TCPXO_FROM", *matching(r"ar\+https://[A-Za-z0-9][A-Za-z0-9.-]*/[A-Za-z0-9_./-]+", "an ar+https:// URL")),
    "container": ("_CONTAINER", *matching(r"[a-z0-9][a-z0-9.:-]*#[a-z0-9][a-z0-9._/-]*:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", "REGISTRY#IMAGE:TAG")),
    "agent": ("_AGENT", *matching(r"(gs://[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]/[A-Za-z0-9_./-]{1,900})?", "gs://BUCKET/OBJECT, or empty")),
    "agent_sha256": ("_AGENT_SHA256", *matching(r"([0-9a-f]{64})?", "a SHA-256 of 64 hexadecimal digits, or empty")),
    "home": ("_BURNIN_PROJECT", *matching(r"([a-z][a-z0-9-]{4,28}[a-z0-9])?", "a project's id, or empty")),
    "topics": ("_TOPICS", *matching(r"[A-Za-z][A-Za-z0-9-]{0,40}", "the prefix of the topics' names, such as burnin-")),
    "artefacts": ("_ARTEFACTS", *matching(r"([a-z0-9][a-z0-9._-]{1,61}[a-z0-9])?", "a bucket's name without gs://, or empty")),
    "container_digest": ("_CONTAINER_DIGEST", *matching(r"(sha256:[0-9a-f]{64})?", "sha256: and 64 hexadecimal digits, or empty")),
}
STORAGE = {
    "filestore": {
        "filestore_tier": ("_FILESTORE_TIER", *one_of("HIGH_SCALE_SSD", "ENTERPRISE", "BASIC_SSD", "BASIC_HDD")),
        "filestore_gb": ("_FILESTORE_GB", *number(1024, 102400)),
    },
    "lustre": {
        "lustre_name": ("_LUSTRE_NAME", *matching(r"[a-z][a-z0-9]{0,7}", "a name of a-z and 0-9, at most 8")),
        "lustre_mount": ("_LUSTRE_MOUNT", *path()),
        "lustre_servers": ("_LUSTRE_SERVERS", *number(1, 32)),
        "lustre_metadata_machine": ("_LUSTRE_METADATA_MACHINE", *matching(r"[a-z][a-z0-9]{1,5}-[a-z]+-[0-9]{1,3}", "a machine type such as n2-standard-16")),
        "lustre_server_machine": ("_LUSTRE_SERVER_MACHINE", *matching(r"[a-z][a-z0-9]{1,5}-[a-z]+-[0-9]{1,3}", "a machine type such as n2-standard-16")),
        "lustre_disk_gb": ("_LUSTRE_DISK_GB", *number(100, 65536)),
        "gcs_bucket": ("_GCS_BUCKET", *matching(r"([a-z0-9][a-z0-9._-]{1,61}[a-z0-9])?", "a bucket's name without gs://, or empty")),
        "gcs_mount": ("_GCS_MOUNT", *path()),
    },
}


def read(parameters, environment, problems):
    values = {}
    for name, (variable, reader, wanted) in parameters.items():
        text = environment.get(variable, "")
        values[name] = reader(text)
        if values[name] is None:
            problems.append(f"{variable}: expected {wanted}, found {text[:80]!r}")
    return values


def contradictions(values, problems):
    """Reports conflicts between values that are individually valid."""
    if values["region"] and values["zone"] and not values["zone"].startswith(values["region"] + "-"):
        problems.append(f"_ZONE: expected a zone of {values['region']}, found {values['zone']!r}")
    if values["provisioning"] == "reservation" and values["reservation"] == "":
        problems.append("_RESERVATION: expected a reservation's name with _PROVISIONING=reservation, found no value")
    if values["provisioning"] in ("spot", "on-demand") and values["reservation"]:
        problems.append(f"_RESERVATION: expected no value with _PROVISIONING={values['provisioning']}")
    if values["provisioning"] in ("spot", "on-demand") and values["maintenance"]:
        problems.append(f"_MAINTENANCE: expected no value with _PROVISIONING={values['provisioning']}: only reservations have a maintenance interval")
    if values.get("filestore_tier") == "HIGH_SCALE_SSD" and values.get("filestore_gb") and values["filestore_gb"] < 10240:
        problems.append("_FILESTORE_GB: expected 10240 or more with HIGH_SCALE_SSD")
    if values["system_range"] and values["gpu_range"]:
        if ipaddress.ip_network(values["system_range"]).overlaps(ipaddress.ip_network(values["gpu_range"])):
            problems.append(f"_GPU_RANGE: expected a range that does not overlap _SYSTEM_RANGE, {values['system_range']}")
    if values["storage"] == "lustre" and values["source_image"] and not values["source_image"].startswith("ubuntu-"):
        problems.append("_SOURCE_IMAGE: expected an Ubuntu 22.04 image with _STORAGE=lustre: Lustre has no client for Debian")
    if values["storage"] == "filestore" and values["source_image"] and not values["headers_from"]:
        problems.append("_HEADERS_FROM: expected the archive with the kernel headers of _SOURCE_IMAGE, found no value")
    if values["agent"]:
        for name, variable in (("agent_sha256", "_AGENT_SHA256"), ("artefacts", "_ARTEFACTS")):
            if values[name] == "":
                problems.append(f"{variable}: expected a value with _AGENT, found no value")
    mounts = [values.get(name) for name in ("lustre_mount", "gcs_mount")]
    if mounts[0] and mounts[0] == mounts[1]:
        problems.append("_GCS_MOUNT: expected a folder other than _LUSTRE_MOUNT")


def names(cluster):
    """Names derived from the cluster's. Slurm allows ten letters and digits; every resource's name begins with `short`."""
    short = "b" + hashlib.sha256(cluster.encode()).hexdigest()[:8]
    return {"short": short, "network": f"{short}-net", "subnetwork": f"{short}-subnet", "image": f"{short}-image"}


def values(environment, teardown=False):
    """Returns the parameters and all problems with them."""
    problems = []
    found = read(TEARDOWN, environment, problems)
    if not teardown:
        found |= read(DEPLOYMENT, environment, problems)
        found |= read(STORAGE.get(found["storage"], {}), environment, problems)
        contradictions(found, problems)
    if not problems:
        found |= names(found["cluster"])
        # Kept networks and images are named after the cluster that created them.
        if found.get("base"):
            found |= {key: names(found["base"])[key] for key in ("network", "subnetwork")}
        if found.get("image_of"):
            found["image"] = names(found["image_of"])["image"]
    return found, problems


def main():
    found, problems = values(os.environ, sys.argv[1:] == ["destroy"])
    if problems:
        print("invalid parameters; nothing was created:", *problems, sep="\n  ", file=sys.stderr)
        return 64
    with open("asked.json", "w", encoding="utf-8") as file:
        json.dump(found, file, indent=1)
    print(f"{found['cluster']}: all resource names begin with {found['short']}-")
    return 0


if __name__ == "__main__":
    sys.exit(main())
