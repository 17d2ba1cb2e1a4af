"""Runs a build config as Cloud Build does: checks it and its substitutions, then runs each step in a fresh root, of which only /workspace
persists. An image is this host's root under an overlay that adds and removes programs, because no image can be pulled here.

Sources: GoogleCloudPlatform/cloud-build-local:validate/validate.go (substitutions, steps); cloud.google.com/build/docs, pages "Substituting variable
values", "Run bash scripts" (a script without a first line `#!` is run by /bin/sh; substitutions are not replaced in scripts) and "Build
configuration file schema".
"""

import os
import pathlib
import re
import shlex
import shutil
import stat
import subprocess
import tempfile

USER_KEY = "^_[A-Z0-9_]+$"
# Built-in substitutions; `True` marks those that a build may set.
BUILT_IN = {"PROJECT_ID": False, "BUILD_ID": False, "PROJECT_NUMBER": False, "LOCATION": False, "TRIGGER_NAME": False, "REPO_FULL_NAME": False,
            "REF_NAME": False, "SERVICE_ACCOUNT": False, "SERVICE_ACCOUNT_EMAIL": False,
            "REPO_NAME": True, "BRANCH_NAME": True, "TAG_NAME": True, "REVISION_ID": True, "COMMIT_SHA": True, "SHORT_SHA": True}
FIELDS = {"steps", "substitutions", "timeout", "options", "tags", "images", "artifacts", "serviceAccount", "logsBucket", "queueTtl", "availableSecrets"}
STEP_FIELDS = {"id", "name", "script", "args", "entrypoint", "env", "dir", "waitFor", "automapSubstitutions", "timeout", "secretEnv", "volumes",
               "allowFailure", "allowExitCodes"}
OPTIONS = {"machineType", "logging", "substitutionOption", "automapSubstitutions", "diskSizeGb", "dynamicSubstitutions", "env", "pool",
           "defaultLogsBucketBehavior", "requestedVerifyOption", "logStreamingOption", "secretEnv", "volumes", "sourceProvenanceHash"}
PATHS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Programs that a host has and some images lack.
PROGRAMS = {"gcloud", "bq", "gsutil", "docker", "terraform", "kubectl", "helm", "jq", "python3", "cargo", "rustc", "rustup", "node", "npm"}


class Refused(Exception):
    """The build is not accepted (400, INVALID_ARGUMENT)."""


class Image:
    """`programs`: those of `PROGRAMS` that the image has; `environment`: its variables; `toolchain`: it has this host's Rust, where the
    official image has it."""

    def __init__(self, programs, environment=None, toolchain=False):
        self.programs, self.environment, self.toolchain = set(programs), {"PATH": PATHS, **(environment or {})}, toolchain


IMAGES = {
    "rust": Image({"cargo", "rustc", "rustup", "python3"}, toolchain=True, environment={
        "CARGO_HOME": "/usr/local/cargo", "RUSTUP_HOME": "/usr/local/rustup", "PATH": f"/usr/local/cargo/bin:{PATHS}"}),
    "gcr.io/cloud-builders/docker": Image({"docker"}),
    "gcr.io/google.com/cloudsdktool/google-cloud-cli": Image({"gcloud", "bq", "gsutil", "docker", "python3"}),
}
# Arguments: a temporary folder, the files of the image that differ from this host's, the workspace, a folder for the records of stand-ins,
# the script, the Rust folders or `-`, the host's folder with this project, the path of the workspace at which programs were compiled or
# `-`; then the variables.
ENTER = r'''
set -e
place=$1 image=$2 workspace=$3 records=$4 script=$5 cargo=$6 rustup=$7 hidden=$8 sources=$9
shift 9
mount -t tmpfs tmpfs "$place"
mkdir "$place"/upper "$place"/work "$place"/root
# Copied into the upper layer, because the image's folder is inside the lower layer `/`.
cp -a "$image"/. "$place"/upper
mount -t overlay overlay -o "lowerdir=/,upperdir=$place/upper,workdir=$place/work" "$place/root"
root=$place/root
mkdir -p "$root"/workspace "$root"/builder/home "$root"/builder/records
for folder in /tmp /root /home "$hidden"; do [ ! -d "$root$folder" ] || mount -t tmpfs tmpfs "$root$folder"; done
mount --bind "$workspace" "$root/workspace"
mount --bind "$records" "$root/builder/records"
[ "$sources" = - ] || { mkdir -p "$root$sources" && mount --bind "$workspace" "$root$sources"; }
if [ "$cargo" != - ]; then
  mkdir -p "$root/usr/local/cargo" "$root/usr/local/rustup"
  mount --bind -o ro "$cargo" "$root/usr/local/cargo"
  mount --bind -o ro "$rustup" "$root/usr/local/rustup"
fi
cp "$script" "$root/builder/script"
chmod 755 "$root/builder/script"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
exec chroot "$root" /usr/bin/env -i -C /workspace "$@" /builder/script
'''


def keys(text):
    """Names of `$NAME` and `${NAME}`; `$$` is a dollar sign."""
    return [found.group(1) or found.group(2) for found in re.finditer(r"\$\$|\$([A-Z_][A-Z0-9_]*)|\$\{([A-Z_][A-Z0-9_]*)\}", text) if found.group(0) != "$$"]


class Build:
    """A build of `config` with the given substitutions: by a trigger, which permits unused ones, or by `gcloud builds submit`."""

    def __init__(self, config, given=None, trigger=False, built_in=None):
        self.config, self.trigger = config, trigger
        self.substitutions = {**(config.get("substitutions") or {}), **(given or {})}
        self.built_in = {"PROJECT_ID": "my-project", "BUILD_ID": "b-1", "LOCATION": "global", **(built_in or {})}
        self.check()

    def check(self):
        options = self.config.get("options") or {}
        for what, found, known in (("build", self.config, FIELDS), ("options", options, OPTIONS)):
            if set(found) - known:
                raise Refused(f"{what}: unknown fields {sorted(set(found) - known)}")
        for key in self.substitutions:
            if not re.match(USER_KEY, key) and not BUILT_IN.get(key):
                raise Refused(f'substitution key "{key}" does not respect format "{USER_KEY}" and is not an overridable built-in substitutions')
        used, known = set(), {"-"}
        for number, step in enumerate(self.config.get("steps") or ()):
            if set(step) - STEP_FIELDS:
                raise Refused(f"build step {number}: unknown fields {sorted(set(step) - STEP_FIELDS)}")
            if not step.get("name"):
                raise Refused(f"build step {number} must specify name")
            if "script" in step and ("args" in step or "entrypoint" in step):
                raise Refused(f"build step {number}: script cannot be combined with args or entrypoint; remove one of them")
            for dependency in step.get("waitFor") or ():
                if dependency not in known:
                    raise Refused(f'build step #{number} depends on "{dependency}", which has not been defined')
            if step.get("id") in known:
                raise Refused(f'build step #{number} - "{step["id"]}": the ID is not unique')
            known |= {step["id"]} if "id" in step else set()
            texts = [step["name"], step.get("dir", ""), step.get("entrypoint", ""), *(step.get("args") or ()), *(step.get("env") or ())]
            used |= {key for text in texts for key in keys(text)}
            # Assumption: a key is used even if only a script receives it, as a variable. The documentation does not state this.
            if self.maps(step):
                used |= set(self.substitutions)
        if not known - {"-"} and not self.config.get("steps"):
            raise Refused("no build steps are specified")
        unmatched = []
        for key in sorted(used - set(self.substitutions)):
            if not re.match(USER_KEY, key):
                if key not in BUILT_IN:
                    raise Refused(f'key in the template "{key}" is not a valid built-in substitution')
            else:
                unmatched.append(f'key in the template "{key}" is not matched in the substitution data')
        unmatched += [f'key "{key}" in the substitution data is not matched in the template' for key in sorted(set(self.substitutions) - used)]
        # The API forces ALLOW_LOOSE for triggers.
        if unmatched and not self.trigger and options.get("substitutionOption") != "ALLOW_LOOSE":
            raise Refused(";".join(unmatched))
        if self.trigger and not (options.get("logging") in ("CLOUD_LOGGING_ONLY", "NONE") or "logsBucket" in self.config):
            raise Refused("if 'build.service_account' is specified, the build must specify 'build.logs_bucket' or a logging option")

    def maps(self, step):
        return bool(step.get("automapSubstitutions") or (self.config.get("options") or {}).get("automapSubstitutions"))

    def replaced(self, text):
        values = {**self.built_in, **self.substitutions}
        return re.sub(r"\$\$|\$([A-Z_][A-Z0-9_]*)|\$\{([A-Z_][A-Z0-9_]*)\}",
                      lambda found: "$" if found.group(0) == "$$" else values.get(found.group(1) or found.group(2), ""), text)

    def run(self, workspace, records, stand_ins, sources="-"):
        """Runs the steps until one fails. `stand_ins`: a text for each program; `sources`: a second path of the workspace, for programs that
        were compiled there. Returns each step's id, exit status and output."""
        results = []
        with tempfile.TemporaryDirectory(prefix="burnin-build.") as folder:
            for number, step in enumerate(self.config["steps"]):
                place = pathlib.Path(folder) / str(number)
                (place / "root").mkdir(parents=True)
                status, output = self.step(step, place, workspace, records, stand_ins, sources)
                results.append((step.get("id", str(number)), status, output))
                if status:
                    break
        return results

    def step(self, step, place, workspace, records, stand_ins, sources):
        image = IMAGES.get(self.replaced(step["name"]).rpartition(":")[0] or step["name"]) or IMAGES.get(step["name"])
        if image is None:
            return 1, f"{step['name']}: the rehearsal does not contain this image; add it to IMAGES"
        layer(place / "image", image, stand_ins)
        if "script" in step:
            script = step["script"] if step["script"].startswith("#!") else "#!/bin/sh\n" + step["script"]
        else:
            words = [*([step["entrypoint"]] if "entrypoint" in step else []), *(step.get("args") or ())]
            script = "#!/bin/sh\nexec " + shlex.join(map(self.replaced, words))
        (place / "script").write_text(script)
        variables = {**image.environment, "HOME": "/builder/home", **dict(self.replaced(pair).split("=", 1) for pair in step.get("env") or ())}
        if "script" in step and self.maps(step):
            variables |= {**self.built_in, **self.substitutions}
        toolchain = [os.environ.get("CARGO_HOME", str(pathlib.Path.home() / ".cargo")), os.environ.get("RUSTUP_HOME", str(pathlib.Path.home() / ".rustup"))]
        hidden = "/" + str(pathlib.Path(__file__).resolve()).split("/")[1]
        done = subprocess.run(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private", "bash", "-c", ENTER, "enter", place / "root",
             place / "image", workspace, records, place / "script", *(toolchain if image.toolchain else ["-", "-"]), hidden, sources,
             *(f"{name}={value}" for name, value in variables.items())],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
        return done.returncode, done.stdout


def layer(folder, image, stand_ins):
    """The files of an image that differ from this host's: stand-ins for its programs, and white-outs of this host's programs that it lacks."""
    stands = folder / "usr/local/bin"
    stands.mkdir(parents=True)
    for name in PROGRAMS - image.programs | set(stand_ins):
        for place in PATHS.split(":"):
            # /bin may be a link to /usr/bin.
            path = pathlib.Path(os.path.realpath(place)) / name
            if os.path.lexists(path):
                hidden = folder / path.relative_to("/")
                hidden.parent.mkdir(parents=True, exist_ok=True)
                if not os.path.lexists(hidden):
                    os.mknod(hidden, stat.S_IFCHR | 0o600, os.makedev(0, 0))
    for name, text in stand_ins.items():
        if name in image.programs:
            path = stands / name
            path.unlink(missing_ok=True)
            path.write_text("#!/usr/bin/env bash\n" + text)
            path.chmod(0o755)


def copy_of(root, workspace):
    """The files of the checkout that git does not ignore, as a repository."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=root, stdout=subprocess.PIPE, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (root / name).is_file():
            target = workspace / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, target)
    for words in (["init", "--quiet"], ["add", "--all"]):
        subprocess.run(["git", *words], cwd=workspace, check=True)
