"""Says which image a tag is, by its registry's own word: digest.py REGISTRY#IMAGE:TAG. Anonymous; Python's own library only.

Of an image for several machines it is the digest of the list.
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
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.headers.get("Docker-Content-Digest")


def digest(image):
    registry, name, tag = re.fullmatch(r"([^#]+)#(.+):([^:/]+)", image).groups()
    local = registry.startswith(("127.0.0.1:", "localhost:"))
    url = f"{'http' if local else 'https'}://{registry}/v2/{name}/manifests/{tag}"
    try:
        return manifest(url)
    except urllib.error.HTTPError as refused:
        asks = refused.headers.get("WWW-Authenticate", "")
        if refused.code != 401 or not asks.startswith("Bearer "):
            raise
    fields = dict(re.findall(r'(\w+)="([^"]*)"', asks))
    query = {"scope": f"repository:{name}:pull"} | {key: fields[key] for key in ("service",) if key in fields}
    with urllib.request.urlopen(f"{fields['realm']}?{urllib.parse.urlencode(query)}", timeout=30) as answer:
        given = json.load(answer)
    return manifest(url, given.get("token") or given.get("access_token"))


if __name__ == "__main__":
    try:
        print(digest(sys.argv[1]) or "without a digest")
    except (OSError, KeyError, ValueError, AttributeError) as error:
        sys.exit(f"{sys.argv[1]}: the registry does not say which image it is: {error}")
