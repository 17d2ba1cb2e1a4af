"""What the steps are asked for: substitutions as environment variables, each of its type. All problems are reported at once."""

import hashlib
import ipaddress
import os
import re
import sys

NAME = r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?"
DIGEST = r"(/[a-z0-9][a-z0-9._-]*)+@sha256:[0-9a-f]{64}"


class Wrong(Exception):
    """Something that was asked for cannot be; the exit code is 64."""


def matching(pattern, wanted):
    return lambda text: text if re.fullmatch(pattern, text) else None, wanted


def number(least, most):
    def read(text):
        return int(text) if re.fullmatch(r"\d{1,10}", text) and least <= int(text) <= most else None

    return read, f"a number from {least} to {most}"


def narrow(text):
    """One address or a small network. The whole world is not let at a cluster's API."""
    try:
        network = ipaddress.ip_network(text)
    except ValueError:
        return None
    return text if network.prefixlen >= (16 if network.version == 4 else 48) else None


TOLD = {
    "cluster": ("_CLUSTER", *matching(NAME, "a cluster's name")),
    "state": ("_STATE", *matching(r"(gs:/)?(/[A-Za-z0-9._@+-]+)+/?", "gs://BUCKET/FOLDER or an absolute path")),
}
BOTH = {
    "project": ("_PROJECT", *matching(r"[a-z][a-z0-9-]{4,28}[a-z0-9]", "a project's id")),
    "region": ("_REGION", *matching(r"[a-z]+-[a-z]+\d+", "a region, for instance us-central1")),
    # Empty: a cluster is created. Otherwise the name of an existing one; our objects are removed from it at the end.
    "existing": ("_EXISTING", *matching(f"({NAME})?", "a GKE cluster's name, or nothing")),
}
DEPLOY = {
    "run": ("_RUN", *matching(r"([a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?)?", "a run")),
    "expires": ("_EXPIRES", *number(1700000000, 4102444800)),
    "nodes": ("_NODES", *number(2, 1024)),
    "namespace": ("_NAMESPACE", *matching(NAME, "a namespace")),
    "existing_queue": ("_EXISTING_QUEUE", lambda text: {"true": True, "false": False, "": False}.get(text), "true or false"),
    "queue": ("_QUEUE", *matching(NAME, "a LocalQueue's name")),
    "jobset_chart": ("_JOBSET_CHART", *matching(r"oci://[a-z0-9][a-z0-9.-]*" + DIGEST, "JobSet's chart by digest, oci://HOST/PATH@sha256:...")),
    "kueue_chart": ("_KUEUE_CHART", *matching(r"oci://[a-z0-9][a-z0-9.-]*" + DIGEST, "Kueue's chart by digest, oci://HOST/PATH@sha256:...")),
    "gib_image": ("_GIB_IMAGE", *matching(r"[a-z0-9][a-z0-9.-]*" + DIGEST, "the gIB installer by digest, HOST/PATH@sha256:...")),
    "agent": ("_AGENT", *matching(r"([a-z0-9][a-z0-9.-]*" + DIGEST + ")?", "the agent's image by digest, HOST/PATH@sha256:..., or nothing")),
    "home": ("_BURNIN_PROJECT", *matching(r"([a-z][a-z0-9-]{4,28}[a-z0-9])?", "a project's id, or nothing")),
    "topics": ("_TOPICS", *matching(r"[A-Za-z][A-Za-z0-9-]{0,40}", "the prefix of the topics' names, such as burnin-")),
    "artefacts": ("_ARTEFACTS", *matching(r"([a-z0-9][a-z0-9._-]{1,61}[a-z0-9])?", "a bucket's name without gs://, or nothing")),
    "ready_s": ("_READY_SECONDS", *number(1, 7200)),
}
# Only where a cluster is made.
MADE = {
    "zone": ("_ZONE", *matching(r"[a-z]+-[a-z]+\d+-[a-z]", "a zone, for instance us-central1-b")),
    "reservation": ("_RESERVATION", *matching(r"[a-z][a-z0-9-]{0,62}(/reservationBlocks/[a-z][a-z0-9-]{0,62})?", "a reservation, or a block of one")),
    "authorized_cidr": ("_AUTHORIZED_CIDR", lambda text: text if text == "" else narrow(text), "whose kubectl is let in by address, a network no larger than /16, or nothing"),
    "state_bucket": ("_TERRAFORM_BUCKET", *matching(r"[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]", "a bucket without gs://")),
    "version_prefix": ("_GKE_VERSION", *matching(r"1\.\d{2}\.(\d+-gke\.\d+)?", "a GKE version's beginning, for instance 1.33.")),
}


def read(*groups):
    """The values of all parameters of these groups; all that is wrong with them at once."""
    values, problems = {}, []
    groups = [TOLD, BOTH, *groups]
    if DEPLOY in groups and not os.environ.get("_EXISTING"):
        groups.append(MADE)
    for group in groups:
        for name, (variable, take, wanted) in group.items():
            text = os.environ.get(variable, "")
            values[name] = take(text)
            if values[name] is None:
                problems.append(f"{variable}: expected {wanted}, found {text[:100]!r}")
    if values.get("zone") and values.get("region") and not values["zone"].startswith(values["region"] + "-"):
        problems.append(f"_ZONE: expected a zone of {values['region']}, found {values['zone']}")
    if values.get("agent") and values["artefacts"] == "":
        problems.append("_ARTEFACTS: expected the artefact bucket with _AGENT, found nothing")
    if problems:
        raise Wrong("\n  ".join(["nothing was touched, because of what was asked for:", *problems]))
    # Cluster Toolkit takes 15 letters at most; the labels carry the whole name.
    values["deployment"] = "b" + hashlib.sha256(values["cluster"].encode()).hexdigest()[:10]
    return values


def labels(values):
    return {"burnin-cluster": values["cluster"], "burnin-expires": str(values["expires"]),
            **({"burnin-run": values["run"]} if values["run"] else {})}


def play(steps):
    """Runs the step that the command line names."""
    try:
        return steps[sys.argv[1]]() or 0
    except Wrong as wrong:
        print(wrong, file=sys.stderr)
        return 64
