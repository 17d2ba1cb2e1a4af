"""Checks the agent's credentials: agent_credentials.py FILE ACCOUNT, as the user of the service. Prints their type and account only."""

import json
import os
import re
import sys


def problem(file, account):
    """The problem with the file, or None."""
    try:
        with open(file, encoding="utf-8") as handle:
            mode, found = os.fstat(handle.fileno()).st_mode, json.load(handle)
    except OSError as error:
        return f"{error.strerror}; put the credentials of {account} there"
    except ValueError:
        return "expected JSON; put a service account's key or a configuration of workload identity federation there"
    kind = found.get("type") if isinstance(found, dict) else None
    if kind == "service_account":
        owner = found.get("client_email")
        if mode & 0o007:
            return f"other users can access this key; run chmod 600 {file}"
    elif kind == "external_account":
        url = str(found.get("service_account_impersonation_url"))
        owner = next(iter(re.findall(r"/serviceAccounts/([^/:]+):generateAccessToken$", url)), None)
        if owner is None:
            return f"expected a configuration that impersonates {account}; create it with --service-account={account}"
    else:
        return f"expected the type service_account or external_account, found {str(kind)[:40]!r}"
    return None if owner == account else f"expected credentials of {account} (_AGENT_ACCOUNT), found those of {str(owner)[:100]}"


if __name__ == "__main__":
    why = problem(*sys.argv[1:])
    sys.exit(f"{sys.argv[1]}: {why}" if why else 0)
