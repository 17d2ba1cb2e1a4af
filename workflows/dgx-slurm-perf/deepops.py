"""Uses a checkout of NVIDIA's DeepOps in place of our own playbooks: deepops.py nfs|cluster|validation.

What its playbooks are called depends on its age; the table below says how. A checkout that fits none of its rows is refused
with what was looked for. Its own folder is the working directory, so that its ansible.cfg holds; name its config/inventory
with _INVENTORY, since the group variables lie beside it. _DEEPOPS_EXTRA_VARS is a JSON object that goes to --extra-vars.
"""

import json
import os
import sys
from typing import NamedTuple

import play


class Layout(NamedTuple):
    """How DeepOps was laid out for some time."""

    since: str
    nfs: tuple
    cluster: tuple
    validation: tuple
    limit: str

    def missing(self, checkout):
        """Those of its playbooks that a checkout lacks. Validation is ours, so that it may be missing."""
        return [file for file in self.nfs + self.cluster if not os.path.isfile(os.path.join(checkout, file))]


# Youngest first: for a while both cluster playbooks were there, and the newer did everything.
LAYOUTS = (
    Layout("20.10", (), ("playbooks/slurm-cluster.yml",), ("playbooks/slurm-cluster/slurm-validation.yml",), "slurm-cluster"),
    Layout("20.01", ("playbooks/generic/nfs-server.yml", "playbooks/generic/nfs-client.yml"),
           ("playbooks/slurm-perf-cluster.yml",), ("playbooks/slurm-validation.yml",), ""),
    Layout("19.08", ("playbooks/nfs.yml",), ("playbooks/slurm-perf-cluster.yml",), ("playbooks/slurm-validation.yml",), ""),
)


def find(checkout):
    """The layout of a checkout; none with the problem when it has none."""
    for layout in LAYOUTS:
        # slurm-cluster.yml is older than its taking over of the performance parts: its validation tells.
        marks = layout.missing(checkout)
        if layout.since == "20.10" and not os.path.isfile(os.path.join(checkout, layout.validation[0])):
            marks = marks + [layout.validation[0]]
        if not marks:
            return layout, None
    looked = "\n".join(f"  as of {one.since}: {', '.join(one.nfs + one.cluster + (one.validation if not one.nfs else ()))}"
                       for one in LAYOUTS)
    return None, f"_DEEPOPS: {checkout} is no checkout of DeepOps that is known here; looked for\n{looked}"


def extra_vars(text):
    """The variables as one argument; none when they are no JSON object."""
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return None
    return json.dumps(value) if isinstance(value, dict) else None


def main():
    step = sys.argv[1]
    values = play.values()
    layout, problem = find(values["deepops"])
    more = extra_vars(os.environ.get("_DEEPOPS_EXTRA_VARS", ""))
    if more is None:
        problem = "_DEEPOPS_EXTRA_VARS: expected a JSON object"
    if problem:
        print(problem, file=sys.stderr)
        return 64
    playbooks = getattr(layout, step)
    if not playbooks:
        print(f"DeepOps since {layout.since} does `{step}` with its cluster")
        return 0
    for number, file in enumerate(playbooks):
        if not os.path.isfile(os.path.join(values["deepops"], file)):
            print(f"_DEEPOPS: {file} is not in {values['deepops']}", file=sys.stderr)
            return 64
        command = play.command(values) + (["--limit", layout.limit] if layout.limit else []) + ["--extra-vars", more, file]
        environment = {"ANSIBLE_STDOUT_CALLBACK": "ansible.posix.jsonl"}
        code = play.run(f"deepops-{step}-{number}", command, environment, values["deepops"])
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
