"""Extracts the permissions of roles from a checkout of darkbitio/gcp-iam-role-permissions, which publishes each predefined role as
Google's API returns it: roles.py CHECKOUT > roles.json. Keeps the roles of the existing roles.json, and of their permissions those of
methods.json, which becomes `checked`.
"""

import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent


def main():
    git = ["git", "-C", sys.argv[1]]
    known = json.loads((HERE / "roles.json").read_text())
    methods = json.loads((HERE / "methods.json").read_text())
    checked = {permission for method in methods["methods"].values() for permission in method}
    checked.update(permission for page in methods["pages"].values() for permission in page["permissions"])
    commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    roles = {}
    for name in sorted(known["roles"]):
        text = subprocess.run([*git, "show", f"HEAD:{name}"], check=True, capture_output=True, text=True).stdout
        roles[name] = sorted(set(json.loads(text)["includedPermissions"]) & checked)
    source = f"github.com/darkbitio/gcp-iam-role-permissions, folder roles, commit {commit}"
    print(json.dumps({"source": source, "checked": sorted(checked), "roles": roles}, indent=1))


if __name__ == "__main__":
    main()
