"""Runs one playbook: play.py NAME [ARGUMENTS OF ansible-playbook].

Ansible's events (ansible.posix.jsonl) are written to events/NAME.jsonl immediately, and a summary is printed. The exit code is
Ansible's. Standard library only.
"""

import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
HIDDEN = "(the task hides its output)"


def why(result):
    """Reason of a task's result, in one line."""
    if result.get("_ansible_no_log") or "censored" in result:
        return HIDDEN
    # The reason of a failed loop is that of its first failed item.
    for item in result.get("results") or []:
        if isinstance(item, dict) and item.get("failed"):
            return why(item)
    parts = [str(result.get("msg") or "")]
    for field in ("module_stderr", "stderr", "stdout"):
        lines = str(result.get(field) or "").strip().splitlines()
        if lines:
            parts.append(lines[-1])
            break
    return " ".join(": ".join(filter(None, parts)).split())[:600]


def summary(line, printed):
    """Lines to print for an event. `printed`: names of the printed tasks."""
    try:
        event = json.loads(line)
        kind = event["_event"]
    except (ValueError, KeyError, TypeError):
        return [line.rstrip()] if line.strip() else []
    if kind == "v2_playbook_on_play_start":
        return [f"PLAY {event['play']['name']}"]
    if kind == "v2_playbook_on_stats":
        return [f"{host}: " + " ".join(f"{name}={count}" for name, count in sorted(counts.items()))
                for host, counts in event["stats"].items()]
    lines = []
    for host, result in event.get("hosts", {}).items():
        task = event["task"]["name"]
        if kind == "v2_runner_on_unreachable":
            lines.append(f"  UNREACHABLE {host}: {why(result)}")
        elif kind == "v2_runner_on_failed":
            lines.append(f"  FAILED {host}: {task}: {why(result)}")
        elif kind == "v2_runner_on_ok" and result.get("changed"):
            lines.append(f"  changed {host}: {task}")
        elif kind == "v2_runner_on_ok" and task not in printed:
            printed.add(task)
            lines.append(f"  {task}")
    return lines


def values():
    """Values written by check.py."""
    with open("vars.json", encoding="utf-8") as handle:
        return json.load(handle)


def command(values):
    """The command ansible-playbook with its options for ssh and sudo."""
    own = os.path.join(HERE, ".venv", "bin", "ansible-playbook")
    words = [own if os.path.exists(own) else "ansible-playbook", "--inventory", values["inventory"]]
    for option, value in (("--user", values["ssh_user"]), ("--private-key", values["ssh_key"]),
                          ("--connection-password-file", values["ssh_password_file"]),
                          ("--become-password-file", values["sudo_password_file"])):
        words += [option, value] if value else []
    return words


def run(name, command, environment, folder):
    """Runs Ansible in a folder and writes its events to events/NAME.jsonl. Returns Ansible's exit code."""
    os.makedirs("events", exist_ok=True)
    environment = dict(os.environ, ANSIBLE_NOCOLOR="1", LC_ALL="C.UTF-8", PYTHONUNBUFFERED="1", **environment)
    printed, failures = set(), []
    with open(f"events/{name}.jsonl", "w", encoding="utf-8") as events:
        ansible = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env=environment, cwd=folder,
                                   text=True, encoding="utf-8", errors="replace")
        for line in ansible.stdout:
            events.write(line)
            events.flush()
            for text in summary(line, printed):
                failures += [text] if text.startswith(("  FAILED ", "  UNREACHABLE ")) else []
                print(text, flush=True)
    code = ansible.wait()
    if code:
        # Failures are printed last, because the report of a failed build quotes the end of its log.
        print(f"{name}.yml failed with exit code {code}:", *failures[-3:], sep="\n", flush=True)
    return code


def playbook(name, more=()):
    """Runs one of the playbooks with the values of check.py. Returns Ansible's exit code."""
    words = command(values()) + ["--extra-vars", "@" + os.path.abspath("vars.json"), *more]
    words.append(os.path.join(HERE, "playbooks", f"{name}.yml"))
    return run(name, words, {"ANSIBLE_CONFIG": os.path.join(HERE, "ansible.cfg")}, ".")


def main():
    return playbook(sys.argv[1], sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
