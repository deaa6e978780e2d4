// Package deploy holds what is in deploy/ to what it promises, on a machine
// without any cluster or registry. It holds tests alone:
//
//   - the manifests as kustomize builds them, decoded strictly into the types
//     of Kubernetes and of Prometheus Operator, and judged by the restricted
//     pod security standard;
//   - the component and the admission policy, the latter evaluated by the very
//     code of the API server: both must make the same container;
//   - the alerts by promtool, and every expression of the dashboard by a
//     Prometheus that scrapes a sidecar with all kinds of traffic; Grafana's
//     schema knows every field;
//   - the image, built by buildah and run by podman;
//   - the systemd unit, by systemd-analyze.
//
// A tool that is not on the machine skips its test and says so. It is a module
// of its own, so that the sidecar needs none of what the tests need:
//
//	cd deploy/k8s/test && go test ./...
package deploy
