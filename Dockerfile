# The image of `make image`, for those who have Docker: a static program on an empty root, not as root.
#
#   docker build -t writ:0.1.0 .
FROM rust:1.95-alpine AS build
RUN apk add --no-cache musl-dev gcc g++ make cmake perl
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --locked --release --bin writ && cp target/release/writ /writ

FROM scratch
COPY --from=build /writ /writ
USER 65532:65532
WORKDIR /
ENTRYPOINT ["/writ"]
