# A service's image: only the folder that .ci/images.sh created. Built with
#   docker build --build-arg SERVICE=conductor .
FROM scratch
ARG SERVICE
COPY target/images/dist/${SERVICE}/ /
USER 65532:65532
ENTRYPOINT ["/service"]
