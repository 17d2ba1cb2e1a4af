"""Prints the digest that the registry reports for a tag: digest.py REGISTRY#IMAGE:TAG. Anonymous; standard library only.

For a multi-platform image it is the digest of the index.
"""

import json
import re
import sys
import urllib.error
import urllib.parse
import urllib.request

KINDS = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json",
         "application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json")


def manifest(url, token=None):
    request = urllib.request.Request(url, method="HEAD", headers={"Accept": ", ".join(KINDS)})
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    with urllib.request.urlopen(request, timeout=30) as response:
        return response.headers.get("Docker-Content-Digest")


def digest(image):
    registry, name, tag = re.fullmatch(r"([^#]+)#(.+):([^:/]+)", image).groups()
    local = registry.startswith(("127.0.0.1:", "localhost:"))
    url = f"{'http' if local else 'https'}://{registry}/v2/{name}/manifests/{tag}"
    try:
        return manifest(url)
    except urllib.error.HTTPError as refused:
        challenge = refused.headers.get("WWW-Authenticate", "")
        if refused.code != 401 or not challenge.startswith("Bearer "):
            raise
    fields = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
    query = {"scope": f"repository:{name}:pull"} | {key: fields[key] for key in ("service",) if key in fields}
    with urllib.request.urlopen(f"{fields['realm']}?{urllib.parse.urlencode(query)}", timeout=30) as response:
        reply = json.load(response)
    return manifest(url, reply.get("token") or reply.get("access_token"))


if __name__ == "__main__":
    try:
        print(digest(sys.argv[1]) or "without a digest")
    except (OSError, KeyError, ValueError, AttributeError) as error:
        sys.exit(f"{sys.argv[1]}: cannot read the digest from the registry: {error}")
