"""Prints the plan of `infra/` as `terraform show -json` prints it, with every option set: plan.py > plan.json. The rehearsal reads
accounts, grants, environments and subscriptions from it.
"""

import subprocess
import sys
import tempfile

from check import HERE, Terraform, fail, planned


def main():
    with tempfile.TemporaryDirectory() as folder, subprocess.Popen(
            [sys.executable, "-B", HERE / "provider.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as provider:
        try:
            terraform = Terraform(folder, provider.stdout.readline().strip(), provider.pid)
            status, output = terraform.run("init", "-input=false")
            if status:
                fail("terraform init", output)
            print(planned(terraform))
        finally:
            provider.stdin.close()


if __name__ == "__main__":
    main()
