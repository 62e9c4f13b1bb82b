# The image of `make image`, for those who have Docker: a static program on an empty root, not as root. There is no base image
# that could change: the program is built with the pinned toolchain and the locked crates of this checkout.
#
#   make image && docker build -t writ:0.1.0 .
FROM scratch
COPY target/image/writ /writ
USER 65532:65532
WORKDIR /
ENTRYPOINT ["/writ"]
