"""Stand-ins for gcluster v1.39.0, terraform and packer, with their arguments, outputs and failures.

They check the same as the real programs: flags, required files, missing and unused variables of a blueprint, files to stage,
lengths of names, the lock on Terraform's state.
"""

import json
import os
import re
import shutil
import sys

from world import ROOT, World, fail, fault, recorded

COMMIT = "v1.39.0-0-g7699f5d1"
NEEDED = {"a3-mega-base": ["network", "filestore"], "a3-mega-base-lustre": ["network", "lustre"],
          "a3-mega-image": ["build_script", "slurm-build"], "a3-mega-image-lustre": ["build_script", "slurm-build"],
          "a3-mega-cluster": ["cluster"], "a3-mega-cluster-lustre": ["cluster"]}


def options(words, known):
    """Splits the arguments into flags with values and the other words."""
    flags, rest = {}, []
    words = iter(words)
    for word in words:
        if word.startswith("-"):
            name, equals, value = word.partition("=")
            if name not in known:
                fail(f"Error: unknown flag: {name}")
            flags[name] = value if equals else (next(words) if known[name] else True)
        else:
            rest.append(word)
    return flags, rest


def create(words):
    flags, rest = options(words, {"--deployment-file": 1, "--out": 1, "--validation-level": 1, "--overwrite-deployment": 0})
    if len(rest) != 1 or not os.path.isfile(rest[0]):
        fail(f"Error: accepts 1 arg, an existing blueprint; received {rest}")
    with open(rest[0], encoding="utf-8") as file:
        blueprint = file.read()
    with open(flags["--deployment-file"], encoding="utf-8") as file:
        given = json.load(file)
    if set(given) != {"vars", "terraform_backend_defaults"}:
        fail(f"Error: deployment file: unknown fields {sorted(given)}")
    variables = given["vars"]
    used = set(re.findall(r"\bvars\.(\w+)", blueprint)) | {"project_id", "deployment_name", "region", "zone", "labels"}
    for name in sorted(used - set(variables)):
        fail(f"Error: module setting references unknown global variable {name!r}")
    for name in sorted(set(variables) - used):
        fail(f"Error: validator test_deployment_variable_not_used: the variable {name!r} was not used in this blueprint")
    for name in sorted(name for name, value in variables.items() if value is None):
        fail(f"Error: deployment variable {name!r} was not set")
    name = variables["deployment_name"]
    for label in [name, *variables["labels"].values()]:
        if not re.fullmatch(r"[a-z0-9_-]{1,63}", label):
            fail(f"Error: {label!r} is not a valid label value")
    slurm = variables.get("slurm_cluster_name", "a")
    if not re.fullmatch(r"[a-z](?:[a-z0-9]{0,9})", slurm):
        fail("Error: Variable 'slurm_cluster_name' must be a match of regex '^[a-z](?:[a-z0-9]{0,9})$'.")
    folder = os.path.dirname(rest[0])
    for staged in re.findall(r'ghpc_stage\("([^"]+)"\)', blueprint):
        if not os.path.isfile(f"{folder}/{staged}"):
            fail(f"Error: can not stage {staged}: no such file")
    if "$(" in json.dumps(given):
        fail("Error: an expression in a value of the deployment file")
    target = f"{flags['--out']}/{name}"
    if os.path.exists(target):
        if not flags.get("--overwrite-deployment"):
            fail(f"Error: deployment folder {target} already exists, use -w to overwrite")
        shutil.rmtree(target)
    os.makedirs(f"{target}/.ghpc/artifacts")
    title = re.search(r"^blueprint_name: (\S+)$", blueprint, re.MULTILINE)[1]
    groups = re.findall(r"^- group: (\S+)$", blueprint, re.MULTILINE)
    with open(f"{target}/.ghpc/artifacts/expanded_blueprint.yaml", "w", encoding="utf-8") as file:
        json.dump({"blueprint_name": title, "ghpc_version": "v1.39.0", "groups": groups, **given}, file, indent=1)
    for group in groups:
        if group == "slurm-build":
            os.makedirs(f"{target}/{group}/slurm-image")
            open(f"{target}/{group}/slurm-image/image.pkr.hcl", "w").close()
        else:
            os.makedirs(f"{target}/{group}")
            open(f"{target}/{group}/main.tf", "w").close()


def expanded(folder):
    path = f"{folder}/.ghpc/artifacts/expanded_blueprint.yaml"
    if not os.path.isfile(path):
        fail(f"Error: artifacts path {folder}/.ghpc/artifacts is not a directory")
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def state(blueprint, group):
    """Folder of a group's state in its bucket, which must exist."""
    bucket = blueprint["terraform_backend_defaults"]["configuration"]["bucket"]
    if not os.path.isdir(f"{ROOT}/gcs/{bucket}"):
        fail(f"Error: Failed to get existing workspaces: querying Cloud Storage failed: storage: bucket doesn't exist: {bucket}")
    folder = f"{ROOT}/gcs/{bucket}/{blueprint['blueprint_name']}/{blueprint['vars']['deployment_name']}/{group}"
    os.makedirs(folder, exist_ok=True)
    return folder


def lock(folder):
    path = f"{folder}/default.tflock"
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write("1732218000123456")
    except FileExistsError:
        fail("Error: Error acquiring the state lock\n\nError message: writing \"gs://...\" failed: googleapi: Error 412: At least "
             "one of the pre-conditions you specified did not hold., conditionNotMet\nLock Info:\n  ID:        "
             f"{open(path).read()}\n  Operation: OperationTypeApply\n  Who:       root@builder\n")
    return path


def make(world, blueprint, mine, half):
    """Creates a Terraform group's resources in two halves, so that a fault can occur between them."""
    values, short = blueprint["vars"], blueprint["vars"]["deployment_name"].rpartition("-")[0]
    labels = {**values["labels"], "ghpc_deployment": values["deployment_name"]}

    def add(kind, name, **more):
        world.add(kind, name, **more)
        mine.append([kind, name])

    kind = NEEDED[blueprint["blueprint_name"]]
    if half == 0 and "network" in kind:
        add("network", values["system_network"])
        add("subnetwork", values["system_subnetwork"], network=values["system_network"])
        add("firewall rule", f"{values['system_network']}-iap", network=values["system_network"])
        add("router", f"{values['system_network']}-router")
    elif half == 0 and "build_script" in kind:
        add("bucket", f"{short}-image-1f2e3d4c")
    elif half == 0:
        for number in range(8):
            network = f"{values['gpu_network_prefix']}-net-{number}"
            add("network", network)
            add("firewall rule", f"{network}-internal", network=network)
    if half == 0:
        return None
    if "filestore" in kind:
        add("address", f"psa-{short}", labels=labels)
        add("file store", values["filestore_name"], labels=labels)
    if "lustre" in kind:
        for machine in ("mgs0", "mds0", *(f"oss{n}" for n in range(values["lustre_servers"]["node_count"]))):
            add("instance", f"{values['lustre_prefix']}-{machine}", labels=labels, address="172.16.0.9" if machine == "mgs0" else "", zone=values["zone"])
    if "cluster" in kind:
        if "image" not in world.things or values["instance_image"]["name"] not in world.things["image"]:
            return f"Error: Error resolving image name '{values['instance_image']['name']}': Could not find image"
        # The name of Slurm's bucket does not begin with the deployment's name (slurm_files.tf of the controller
        # module).
        add("bucket", f"slurm-{short}", labels=labels)
        add("instance template", f"{short}-controller-2024")
        for machine in ("controller", "login-001"):
            add("instance", f"{short}-{machine}", labels=labels, zone=values["zone"])
        # Terraform's state does not contain the nodes that the controller starts.
        for number in range(values["node_count"]):
            world.add("resource policy", f"{short}-gpu-{number}", region=values["region"])
            world.add("instance", f"{short}-gpu-{number}", labels=labels, zone=values["zone"], scheduling=values["instance_properties"]["scheduling"])
    return None


def deploy(words):
    flags, rest = options(words, {"--auto-approve": 0})
    if "--auto-approve" not in flags or os.environ.get("TF_IN_AUTOMATION") != "TRUE":
        fail("Proposed change: Would you like to proceed? (d/a/s/c): EOF")
    folder, blueprint = rest[0], expanded(rest[0])
    for group in blueprint["groups"]:
        if group == "slurm-build":
            bake(folder, blueprint)
            continue
        place = state(blueprint, group)
        held = lock(place)
        mine, message = [], None
        for half in (0, 1):
            with World() as world:
                message = message or make(world, blueprint, mine, half)
            with open(f"{place}/default.tfstate", "w", encoding="utf-8") as file:
                json.dump(mine, file)
            message = message or (fault(f"deploy-{group}") if half == 0 else None)
            if message:
                break
        os.remove(held)
        if message:
            fail(message)
        with open(f"{folder}/.ghpc/artifacts/{group}_outputs.tfvars", "w", encoding="utf-8") as file:
            file.write("# outputs\n")


def bake(folder, blueprint):
    values = blueprint["vars"]
    with World() as world:
        world.add("instance", "packer-6741b0c2", labels=values["labels"], zone=values["zone"])
    if message := fault("packer"):
        if "keep" not in message:
            with World() as world:
                del world.things["instance"]["packer-6741b0c2"]
        fail(f"==> toolkit_image: {message}\nBuild 'toolkit_image' errored after 12 minutes")
    with World() as world:
        del world.things["instance"]["packer-6741b0c2"]
        world.add("image", values["image_name"], labels=values["labels"])
    manifest = {"builds": [{"name": "toolkit_image", "builder_type": "googlecompute", "artifact_id": values["image_name"],
                            "packer_run_uuid": "9b1f"}], "last_run_uuid": "9b1f"}
    with open(f"{folder}/slurm-build/slurm-image/packer-manifest.json", "w", encoding="utf-8") as file:
        json.dump(manifest, file)


def destroy(words):
    flags, rest = options(words, {"--auto-approve": 0})
    if "--auto-approve" not in flags:
        fail("Testing if deployment group would like to be destroyed: EOF")
    folder, blueprint = rest[0], expanded(rest[0])
    for group in reversed(blueprint["groups"]):
        if group == "slurm-build":
            continue
        place = state(blueprint, group)
        held = lock(place)
        message = fault(f"destroy-{group}")
        try:
            with open(f"{place}/default.tfstate", encoding="utf-8") as file:
                mine = json.load(file)
        except FileNotFoundError:
            mine = []
        with World() as world:
            for kind, name in list(reversed(mine)):
                others = [rule for rule in world.things.get("firewall rule", {}).values() if rule["network"] == name and ["firewall rule", rule["name"]] not in mine]
                if kind == "network" and others:
                    message = f"Error waiting for Deleting Network: The network resource '{name}' is already being used by '{others[0]['name']}'"
                if message:
                    break
                world.things[kind].pop(name, None)
                mine.remove([kind, name])
        with open(f"{place}/default.tfstate", "w", encoding="utf-8") as file:
            json.dump(mine, file)
        os.remove(held)
        if message:
            fail(message)


def terraform(words):
    if words == ["version"]:
        return print("Terraform v1.5.7")
    if not words[0].startswith("-chdir="):
        fail("Error: no -chdir")
    folder, group = words[0][len("-chdir="):].split("/")
    if not os.path.isfile(f"{folder}/{group}/main.tf"):
        fail(f"Error handling -chdir option: chdir {folder}/{group}: no such file or directory")
    blueprint, values = expanded(folder), expanded(folder)["vars"]
    if words[1:] == ["output", "-json"]:
        storage = {"server_ip": "172.16.0.9@tcp" if "lustre_name" in values else "10.1.2.3", "fs_type": "lustre" if "lustre_name" in values else "nfs",
                   "remote_mount": "/" + values["lustre_name"] if "lustre_name" in values else "/nfsshare"}
        storage["server_ip"] = fault("server-ip") or storage["server_ip"]
        name = "network_storage_lustrefs" if "lustre_name" in values else "network_storage_homefs"
        outputs = {name: storage, "network_name_sysnet": values["system_network"], "subnetwork_name_sysnet": values["system_subnetwork"]}
        return print(json.dumps({name: {"sensitive": True, "type": "string", "value": value} for name, value in outputs.items()}))
    if words[1:] == ["init", "-input=false"]:
        return os.makedirs(f"{folder}/{group}/.terraform", exist_ok=True)
    if words[1:3] == ["force-unlock", "-force"]:
        if not os.path.isdir(f"{folder}/{group}/.terraform"):
            fail("Error: Backend initialization required, please run \"terraform init\"")
        path = f"{state(blueprint, group)}/default.tflock"
        if not os.path.exists(path) or open(path).read() != words[3]:
            fail("Failed to unlock state: storage: object doesn't exist")
        return os.remove(path)
    fail(f"Error: {words[1:]}: not simulated")


def main():
    program, *words = sys.argv[1:]
    recorded(program, words)
    if program == "terraform":
        return terraform(words)
    if program == "packer":
        return print("Packer v1.11.2") if words == ["version"] else fail("Usage: packer")
    if words == ["--version"]:
        return print(f"gcluster version v1.39.0\nBuilt from 'detached HEAD' branch.\nCommit info: {COMMIT}")
    {"create": create, "deploy": deploy, "destroy": destroy}[words[0]](words[1:])


if __name__ == "__main__":
    main()
