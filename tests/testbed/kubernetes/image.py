"""Builds an image for the bed's registry without Docker, and prints its name by digest.

    image.py FOLDER program NAME PROGRAM [MORE...]  from this host: bash, the commands of a job's script and of its hardware evidence,
                                                    PROGRAM as all_reduce_perf, MORE under their own names, and their libraries; and
                                                    the image `pause` with the same files
    image.py FOLDER tree NAME TREE                  all files below TREE
"""

import hashlib, io, json, os, re, shutil, subprocess, sys, tarfile, tempfile

CALLED = ["bash", "cat", "getent", "hostname", "mkdir", "rm", "sh", "sleep", "head", "kill", "env"]
PROBED = ["date", "dmesg", "grep", "od", "readlink", "sort", "tail", "timeout", "uname"]


def store(folder, kind, file):
    """Stores a file under its digest in the registry's folder. Returns digest and size."""
    os.makedirs(f"{folder}/{kind}", exist_ok=True)
    file.seek(0)
    digest = "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()
    file.seek(0)
    with open(f"{folder}/{kind}/{digest}", "wb") as stored_file:
        shutil.copyfileobj(file, stored_file)
    return digest, file.tell()


def image(folder, layer, command):
    """Stores an image with one layer. Returns its manifest's digest."""
    (diff, size) = layer
    config = {"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": [diff]},
              "config": {"Entrypoint": command, "Env": ["PATH=/usr/sbin:/usr/bin"]}}
    digest, length = store(folder, "blobs", io.BytesIO(json.dumps(config).encode()))
    manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": digest, "size": length},
                "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": diff, "size": size}]}
    return store(folder, "manifests", io.BytesIO(json.dumps(manifest).encode()))[0]


def program(tar, path, more):
    """Adds the programs with their libraries to the archive."""
    files = {f"/usr/bin/{name}": shutil.which(name) for name in CALLED + PROBED} | {"/usr/bin/all_reduce_perf": path}
    files |= {f"/usr/bin/{os.path.basename(other)}": other for other in more}
    for source in list(files.values()):
        output = subprocess.run(["ldd", source], capture_output=True, text=True).stdout
        files |= {path: path for path in re.findall(r"(/\S+) \(0x", output)}
    for name in ["bin", "lib", "lib64", "sbin"]:
        link = tarfile.TarInfo(name)
        link.type, link.linkname = tarfile.SYMTYPE, f"usr/{name}"
        tar.addfile(link)
    for name, mode in [("usr", 0o755), ("etc", 0o755), ("tmp", 0o1777), ("dev", 0o755), ("proc", 0o755), ("sys", 0o755)]:
        entry = tarfile.TarInfo(name)
        entry.type, entry.mode = tarfile.DIRTYPE, mode
        tar.addfile(entry)
    for path, source in sorted(files.items()):
        with open(source, "rb") as file:
            data = file.read()
        entry = tarfile.TarInfo((path if path.startswith("/usr/") else f"/usr{path}").lstrip("/"))
        entry.size, entry.mode = len(data), 0o755
        tar.addfile(entry, io.BytesIO(data))
    for path, text in [("etc/passwd", "root:x:0:0:root:/tmp:/bin/bash\n"), ("etc/nsswitch.conf", "hosts: files dns\n")]:
        entry = tarfile.TarInfo(path)
        entry.size, entry.mode = len(text), 0o644
        tar.addfile(entry, io.BytesIO(text.encode()))


folder, kind, name, source, *more = sys.argv[1:]
with tempfile.TemporaryFile() as file:
    with tarfile.open(fileobj=file, mode="w") as tar:
        program(tar, source, more) if kind == "program" else tar.add(source, arcname=".")
    layer = store(folder, "blobs", file)
if kind == "program":
    pause = image(folder, layer, ["/usr/bin/sleep", "infinity"])
    shutil.copy(f"{folder}/manifests/{pause}", f"{folder}/manifests/1")
print(f"registry.bed/burnin/{name}@{image(folder, layer, ['/usr/bin/bash'])}")
