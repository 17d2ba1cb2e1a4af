# Sourced by gates that plan infra/: installs the stand-in provider. Returns 1 with the reason printed if Terraform cannot run here.
stand_in=.tools/terraform
terraform_stand_in() {
  if ! type -P terraform >/dev/null; then
    echo "skipped: terraform fmt and plan, because terraform is missing; install 1.9 or later from developer.hashicorp.com/terraform/install"
    return 1
  fi
  mkdir -p .tools
  # One of the concurrent gates installs the stand-in; the others wait for the lock.
  if ! (
    flock 9
    cmp -s tests/terraform/requirements.txt "$stand_in/requirements.txt" && exit
    python3 -m venv --clear "$stand_in" && "$stand_in/bin/pip" install --quiet --disable-pip-version-check -r tests/terraform/requirements.txt &&
      cp tests/terraform/requirements.txt "$stand_in/"
  ) 9>.tools/terraform.lock; then
    echo "skipped: terraform plan, because tests/terraform/requirements.txt cannot be installed"
    return 1
  fi
}
