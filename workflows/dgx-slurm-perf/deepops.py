"""Uses a checkout of NVIDIA's DeepOps instead of Burnin's playbooks: deepops.py nfs|cluster|validation.

The names of its playbooks depend on its version: LAYOUTS lists them. A checkout that matches no layout is rejected with the list
of searched files. The checkout is the working directory, so that its ansible.cfg applies; set _INVENTORY to its
config/inventory, because the group variables are in that folder. _DEEPOPS_EXTRA_VARS is a JSON object for --extra-vars.
"""

import json
import os
import sys
from typing import NamedTuple

import play


class Layout(NamedTuple):
    """Playbooks of a range of DeepOps versions."""

    since: str
    nfs: tuple
    cluster: tuple
    validation: tuple
    limit: str

    def missing(self, checkout):
        """Playbooks that the checkout lacks. DeepOps' validation is optional: Burnin has its own."""
        return [file for file in self.nfs + self.cluster if not os.path.isfile(os.path.join(checkout, file))]


# Newest first: some versions have both cluster playbooks, and the newer one is complete.
LAYOUTS = (
    Layout("20.10", (), ("playbooks/slurm-cluster.yml",), ("playbooks/slurm-cluster/slurm-validation.yml",), "slurm-cluster"),
    Layout("20.01", ("playbooks/generic/nfs-server.yml", "playbooks/generic/nfs-client.yml"),
           ("playbooks/slurm-perf-cluster.yml",), ("playbooks/slurm-validation.yml",), ""),
    Layout("19.08", ("playbooks/nfs.yml",), ("playbooks/slurm-perf-cluster.yml",), ("playbooks/slurm-validation.yml",), ""),
)


def find(checkout):
    """Returns the layout of a checkout, or None and the problem."""
    for layout in LAYOUTS:
        # slurm-cluster.yml exists in older versions without the performance parts; the validation playbook marks complete ones.
        marks = layout.missing(checkout)
        if layout.since == "20.10" and not os.path.isfile(os.path.join(checkout, layout.validation[0])):
            marks = marks + [layout.validation[0]]
        if not marks:
            return layout, None
    searched = "\n".join(f"  version {one.since}: {', '.join(one.nfs + one.cluster + (one.validation if not one.nfs else ()))}"
                         for one in LAYOUTS)
    return None, f"_DEEPOPS: {checkout} is not a supported checkout of DeepOps; searched for\n{searched}"


def extra_vars(text):
    """The variables as one argument; None if they are not a JSON object."""
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
        print(f"DeepOps {layout.since} and later include `{step}` in their cluster playbook")
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
