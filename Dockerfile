# A static binary in an image without a shell, run by nobody in particular.
# The base images are arguments, so that a mirror or a stand-in can take their
# place: docker build --build-arg BASE=registry.example/static .
ARG GO=golang:1.26
ARG BASE=gcr.io/distroless/static-debian12:nonroot

FROM ${GO} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
ARG REVISION=unknown
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false \
    -ldflags "-s -w -X main.version=${VERSION} -X main.revision=${REVISION}" \
    -o /sidecar ./cmd/sidecar

FROM ${BASE}
COPY --from=build /sidecar /sidecar
USER 65532:65532
EXPOSE 9901
ENV SIDECAR_CONFIG=/etc/sidecar/sidecar.yaml
HEALTHCHECK --interval=5s --timeout=3s --start-period=5s CMD ["/sidecar", "healthcheck"]
ENTRYPOINT ["/sidecar"]
CMD ["run"]
