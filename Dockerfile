# A service's image: what .ci/images.sh laid out, and nothing else. Built with
#   docker build --build-arg SERVICE=conductor .
FROM scratch
ARG SERVICE
COPY target/images/dist/${SERVICE}/ /
USER 65532:65532
ENTRYPOINT ["/service"]
