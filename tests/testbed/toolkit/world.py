"""State of the simulated cloud in the folder TOOLKIT_WORLD: resources by kind and name, calls, locks, faults."""

import fcntl
import json
import os
import sys
import time

ROOT = os.environ["TOOLKIT_WORLD"]


class World:
    """The resources, read and written under a lock, because several steps may run at the same time."""

    def __enter__(self):
        self.lock = open(f"{ROOT}/.lock", "w")
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        try:
            with open(f"{ROOT}/things.json", encoding="utf-8") as file:
                self.things = json.load(file)
        except FileNotFoundError:
            self.things = {}
        return self

    def __exit__(self, *error):
        with open(f"{ROOT}/things.json.part", "w", encoding="utf-8") as file:
            json.dump(self.things, file, indent=1, sort_keys=True)
        os.rename(f"{ROOT}/things.json.part", f"{ROOT}/things.json")
        self.lock.close()

    def add(self, kind, name, **more):
        if name in self.things.setdefault(kind, {}):
            fail(f"Error: Error creating {kind}: googleapi: Error 409: The resource '{name}' already exists")
        self.things[kind][name] = {"name": name, **more}


def recorded(program, words):
    """Records a call as a line of JSON."""
    with open(f"{ROOT}/calls.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps([program, *words]) + "\n")


def fault(operation):
    """Returns the next injected fault of an operation, or None. faults/OPERATION has one line per call; an empty line is no fault."""
    path = f"{ROOT}/faults/{operation}"
    try:
        with open(path, encoding="utf-8") as file:
            first, *rest = file.read().splitlines() or [""]
    except FileNotFoundError:
        return None
    with open(path, "w", encoding="utf-8") as file:
        file.write("".join(line + "\n" for line in rest))
    if first == "hang":
        open(f"{ROOT}/hangs", "w").close()
        while True:
            time.sleep(3600)  # until the process is killed
    return first or None


def fail(message, code=1):
    print(message, file=sys.stderr)
    sys.exit(code)
