"""Prints the plan of `infra/` as `terraform show -json` prints it, with every option set: plan.py > plan.json. The rehearsal reads
accounts, grants, environments and subscriptions from it.
"""

import subprocess
import sys
import tempfile

from check import HERE, OPTIONS, REQUIRED, Terraform, fail


def main():
    with tempfile.TemporaryDirectory() as folder, subprocess.Popen(
            [sys.executable, "-B", HERE / "provider.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as provider:
        try:
            terraform = Terraform(folder, provider.stdout.readline().strip(), provider.pid)
            for words in (("init", "-input=false"),):
                status, output = terraform.run(*words)
                if status:
                    fail(f"terraform {' '.join(words)}", output)
            status, output = terraform.plan(REQUIRED | OPTIONS, "-out=plan")
            if status:
                fail("terraform plan", output)
            status, output = terraform.run("show", "-json", "plan")
            if status:
                fail("terraform show", output)
            print(output)
        finally:
            provider.stdin.close()


if __name__ == "__main__":
    main()
