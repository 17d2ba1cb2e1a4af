# The image of the steps on Cloud Build. BASE has gcloud, ssh, and Python 3.10 or later with venv; pass it by digest:
#   docker build --file tools.Dockerfile --build-arg BASE=IMAGE@sha256:... --tag IMAGE .
ARG BASE
FROM ${BASE}
COPY requirements.txt /tmp/requirements.txt
RUN set -eu; \
  command -v gcloud; command -v ssh; \
  python3 -m venv /opt/ansible; \
  /opt/ansible/bin/pip install --quiet --no-cache-dir --disable-pip-version-check --requirement /tmp/requirements.txt
ENV PATH=/opt/ansible/bin:$PATH
