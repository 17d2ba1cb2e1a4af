# The image of the steps: gcluster as pinned in pins.json. BASE has gcloud with gke-gcloud-auth-plugin, kubectl, Helm, Python 3, dig, git,
# make, Go 1.24.6 or later and Terraform 1.12 or later; pass it by digest:
#   docker build --file tools.Dockerfile --build-arg BASE=IMAGE@sha256:... --tag IMAGE .
ARG BASE
FROM ${BASE}
COPY pins.json /tmp/pins.json
RUN set -eu; \
  commit=$(python3 -c 'import json; print(json.load(open("/tmp/pins.json"))["toolkit"]["commit"])'); \
  version=$(python3 -c 'import json; print(json.load(open("/tmp/pins.json"))["toolkit"]["version"])'); \
  git clone --quiet --branch "$version" https://github.com/GoogleCloudPlatform/cluster-toolkit /opt/cluster-toolkit; \
  cd /opt/cluster-toolkit; test "$(git rev-parse HEAD)" = "$commit"; \
  make; install gcluster /usr/local/bin/gcluster
