"""Runs one playbook: play.py NAME [ARGUMENTS OF ansible-playbook].

Ansible's events (ansible.posix.jsonl) go to events/NAME.jsonl as they happen; what a person wants to know of them is
printed. The exit code is Ansible's own. Python's own library only.
"""

import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
HIDDEN = "(the task hides its output)"


def why(result):
    """Why a task ended as it did, in one line."""
    if result.get("_ansible_no_log") or "censored" in result:
        return HIDDEN
    # Of a failed loop the first bad item is reported.
    for item in result.get("results") or []:
        if isinstance(item, dict) and item.get("failed"):
            return why(item)
    said = [str(result.get("msg") or "")]
    for field in ("module_stderr", "stderr", "stdout"):
        lines = str(result.get(field) or "").strip().splitlines()
        if lines:
            said.append(lines[-1])
            break
    return " ".join(": ".join(filter(None, said)).split())[:600]


def tell(line, told):
    """What a person wants to know of an event."""
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
        elif kind == "v2_runner_on_ok" and task not in told:
            told.add(task)
            lines.append(f"  {task}")
    return lines


def values():
    """What check.py wrote."""
    with open("vars.json", encoding="utf-8") as handle:
        return json.load(handle)


def command(values):
    """ansible-playbook and how it gets to the hosts."""
    own = os.path.join(HERE, ".venv", "bin", "ansible-playbook")
    words = [own if os.path.exists(own) else "ansible-playbook", "--inventory", values["inventory"]]
    for option, value in (("--user", values["ssh_user"]), ("--private-key", values["ssh_key"]),
                          ("--connection-password-file", values["ssh_password_file"]),
                          ("--become-password-file", values["sudo_password_file"])):
        words += [option, value] if value else []
    return words


def run(name, command, environment, folder):
    """Runs Ansible in a folder; its events go to events/NAME.jsonl. The exit code is Ansible's."""
    os.makedirs("events", exist_ok=True)
    environment = dict(os.environ, ANSIBLE_NOCOLOR="1", LC_ALL="C.UTF-8", PYTHONUNBUFFERED="1", **environment)
    told, wrong = set(), []
    with open(f"events/{name}.jsonl", "w", encoding="utf-8") as events:
        ansible = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env=environment, cwd=folder,
                                   text=True, encoding="utf-8", errors="replace")
        for line in ansible.stdout:
            events.write(line)
            events.flush()
            for words in tell(line, told):
                wrong += [words] if words.startswith(("  FAILED ", "  UNREACHABLE ")) else []
                print(words, flush=True)
    code = ansible.wait()
    if code:
        # Reports of a failed build quote the end of its log.
        print(f"{name}.yml failed with {code}:", *wrong[-3:], sep="\n", flush=True)
    return code


def main():
    name, more = sys.argv[1], sys.argv[2:]
    words = command(values()) + ["--extra-vars", "@" + os.path.abspath("vars.json"), *more]
    words.append(os.path.join(HERE, "playbooks", f"{name}.yml"))
    return run(name, words, {"ANSIBLE_CONFIG": os.path.join(HERE, "ansible.cfg")}, ".")


if __name__ == "__main__":
    sys.exit(main())
