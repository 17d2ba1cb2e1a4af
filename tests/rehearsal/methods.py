"""Extracts the permissions of API methods from a checkout of iann0036/iam-dataset: methods.py CHECKOUT > methods.json. Keeps the methods
that `methods` lists in the existing methods.json, and its `pages`: requests that the data set lacks, each with the page that states its
permissions.
"""

import json
import pathlib
import subprocess
import sys

FILE = pathlib.Path(__file__).parent / "methods.json"


def main():
    git = ["git", "-C", sys.argv[1]]
    known = json.loads(FILE.read_text())
    commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    text = subprocess.run([*git, "show", "HEAD:gcp/map.json"], check=True, capture_output=True, text=True).stdout
    found = {name: method for api in json.loads(text)["api"].values() for name, method in api.get("methods", {}).items()}
    methods = {name: [permission["name"] for permission in found[name]["permissions"]] for name in sorted(known["methods"])}
    source = f"github.com/iann0036/iam-dataset, gcp/map.json, commit {commit}"
    print(json.dumps({"source": source, "methods": methods, "pages": known["pages"]}, indent=1))


if __name__ == "__main__":
    main()
