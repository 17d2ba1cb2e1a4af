"""Parameters of the steps: substitutions as environment variables, converted to their types. All problems are reported together."""

import hashlib
import ipaddress
import os
import re
import sys

NAME = r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?"
DIGEST = r"(/[a-z0-9][a-z0-9._-]*)+@sha256:[0-9a-f]{64}"


class Wrong(Exception):
    """Invalid parameters or missing tools; the exit code is 64."""


def matching(pattern, wanted):
    return lambda text: text if re.fullmatch(pattern, text) else None, wanted


def number(least, most):
    def read(text):
        return int(text) if re.fullmatch(r"\d{1,10}", text) and least <= int(text) <= most else None

    return read, f"a number from {least} to {most}"


def narrow(text):
    """An address or a network no larger than /16 (IPv6: /48). Larger ones, such as 0.0.0.0/0, must not reach a cluster's API."""
    try:
        network = ipaddress.ip_network(text)
    except ValueError:
        return None
    return text if network.prefixlen >= (16 if network.version == 4 else 48) else None


TEARDOWN = {
    "cluster": ("_CLUSTER", *matching(NAME, "a cluster's name")),
    "state": ("_STATE", *matching(r"(gs:/)?(/[A-Za-z0-9._@+-]+)+/?", "gs://BUCKET/FOLDER or an absolute path")),
}
BOTH = {
    "project": ("_PROJECT", *matching(r"[a-z][a-z0-9-]{4,28}[a-z0-9]", "a project's id")),
    "region": ("_REGION", *matching(r"[a-z]+-[a-z]+\d+", "a region such as us-central1")),
    # Empty: a cluster is created. Otherwise: the name of an existing cluster. Only the steps' own objects are removed from this cluster.
    "existing": ("_EXISTING", *matching(f"({NAME})?", "a GKE cluster's name, or empty")),
}
DEPLOY = {
    "run": ("_RUN", *matching(r"([a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?)?", "a run")),
    "expires": ("_EXPIRES", *number(1700000000, 4102444800)),
    "nodes": ("_NODES", *number(2, 1024)),
    "namespace": ("_NAMESPACE", *matching(NAME, "a namespace")),
    "existing_queue": ("_EXISTING_QUEUE", lambda text: {"true": True, "false": False, "": False}.get(text), "true or false"),
    "queue": ("_QUEUE", *matching(NAME, "a LocalQueue's name")),
    "jobset_chart": ("_JOBSET_CHART", *matching(r"oci://[a-z0-9][a-z0-9.-]*" + DIGEST, "JobSet's chart by digest, oci://HOST/PATH@sha256:...")),
    "kueue_chart": ("_KUEUE_CHART", *matching(r"oci://[a-z0-9][a-z0-9.-]*" + DIGEST, "Kueue's chart by digest, oci://HOST/PATH@sha256:...")),
    "gib_image": ("_GIB_IMAGE", *matching(r"[a-z0-9][a-z0-9.-]*" + DIGEST, "the gIB installer by digest, HOST/PATH@sha256:...")),
    "agent": ("_AGENT", *matching(r"([a-z0-9][a-z0-9.-]*" + DIGEST + ")?", "the agent's image by digest, HOST/PATH@sha256:..., or empty")),
    "home": ("_BURNIN_PROJECT", *matching(r"([a-z][a-z0-9-]{4,28}[a-z0-9])?", "a project's id, or empty")),
    "topics": ("_TOPICS", *matching(r"[A-Za-z][A-Za-z0-9-]{0,40}", "the prefix of the topics' names, such as burnin-")),
    "artefacts": ("_ARTEFACTS", *matching(r"([a-z0-9][a-z0-9._-]{1,61}[a-z0-9])?", "a bucket's name without gs://, or empty")),
    "ready_s": ("_READY_SECONDS", *number(1, 7200)),
}
# Parameters of a cluster that is created.
CREATED = {
    "zone": ("_ZONE", *matching(r"[a-z]+-[a-z]+\d+-[a-z]", "a zone such as us-central1-b")),
    "reservation": ("_RESERVATION", *matching(r"[a-z][a-z0-9-]{0,62}(/reservationBlocks/[a-z][a-z0-9-]{0,62})?", "a reservation, or a block of one")),
    "authorized_cidr": ("_AUTHORIZED_CIDR", lambda text: text if text == "" else narrow(text), "a network no larger than /16 that may reach the API by address, or empty"),
    "state_bucket": ("_TERRAFORM_BUCKET", *matching(r"[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]", "a bucket without gs://")),
    "version_prefix": ("_GKE_VERSION", *matching(r"1\.\d{2}\.(\d+-gke\.\d+)?", "a GKE version prefix, such as 1.33.")),
}


def read(*groups):
    """Reads all parameters of these groups. Raises Wrong with all problems."""
    values, problems = {}, []
    groups = [TEARDOWN, BOTH, *groups]
    if DEPLOY in groups and not os.environ.get("_EXISTING"):
        groups.append(CREATED)
    for group in groups:
        for name, (variable, take, wanted) in group.items():
            text = os.environ.get(variable, "")
            values[name] = take(text)
            if values[name] is None:
                problems.append(f"{variable}: expected {wanted}, found {text[:100]!r}")
    if values.get("zone") and values.get("region") and not values["zone"].startswith(values["region"] + "-"):
        problems.append(f"_ZONE: expected a zone of {values['region']}, found {values['zone']}")
    if values.get("agent") and values["artefacts"] == "":
        problems.append("_ARTEFACTS: expected the artefact bucket with _AGENT, found no value")
    if problems:
        raise Wrong("\n  ".join(["invalid parameters; nothing was changed:", *problems]))
    # Cluster Toolkit allows at most 15 letters; the labels have the full name.
    values["deployment"] = "b" + hashlib.sha256(values["cluster"].encode()).hexdigest()[:10]
    return values


def labels(values):
    return {"burnin-cluster": values["cluster"], "burnin-expires": str(values["expires"]),
            **({"burnin-run": values["run"]} if values["run"] else {})}


def run_step(steps):
    """Runs the step named on the command line; returns the exit code."""
    try:
        return steps[sys.argv[1]]() or 0
    except Wrong as wrong:
        print(wrong, file=sys.stderr)
        return 64
