package deploy

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"go.yaml.in/yaml/v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
)

// TestManifests_Build: every folder builds and decodes strictly, and holds the
// kinds that it is for.
func TestManifests_Build(t *testing.T) {
	t.Parallel()
	for folder, want := range map[string][]string{
		"example":    {"*v1.ConfigMap", "*v1.Deployment", "*v1.Namespace", "*v1.NetworkPolicy", "*v1.Service"},
		"inject":     {"*v1.MutatingAdmissionPolicy", "*v1.MutatingAdmissionPolicyBinding"},
		"monitoring": {"*v1.ConfigMap", "*v1.PodMonitor", "*v1.PrometheusRule"},
	} {
		var kinds []string
		for _, object := range build(t, folder) {
			kinds = append(kinds, fmt.Sprintf("%T", object))
		}
		slices.Sort(kinds)
		if !slices.Equal(kinds, want) {
			t.Errorf("%s holds %v, want %v", folder, kinds, want)
		}
	}
}

// TestManifests_DecodingIsStrict: what the tests rely on to find a slip of the
// pen.
func TestManifests_DecodingIsStrict(t *testing.T) {
	t.Parallel()
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: a, %s}]}\n"
	if _, err := decode(fmt.Appendf(nil, pod, "securityContext: {runAsNonRoot: true}")); err != nil {
		t.Error(err)
	}
	for slip, want := range map[string]string{
		"securityContext: {runAsNonRooot: true}":   "unknown field",
		"securityContext: {runAsNonRoot: \"yes\"}": "cannot unmarshal string",
		"image: b": "already set",
	} {
		if _, err := decode(fmt.Appendf(nil, pod, slip)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", slip, err, want)
		}
	}
}

// TestManifests_Configuration: the ConfigMap keeps its name whatever is in it,
// and the sidecar accepts its contents.
func TestManifests_Configuration(t *testing.T) {
	t.Parallel()
	config := one[*corev1.ConfigMap](t, build(t, "example"))
	if config.Name != "sidecar" {
		t.Errorf("the ConfigMap is %q; a name that changes would roll the Deployment instead of reloading", config.Name)
	}
	if len(config.Data) != 1 {
		t.Errorf("the ConfigMap holds %d files, want sidecar.yaml", len(config.Data))
	}
	path := write(t, t.TempDir(), "sidecar.yaml", config.Data["sidecar.yaml"])
	out := mustCommand(t, ".", sidecarBinary(t), "validate", path)
	if !strings.Contains(out, "valid, 2 dependencies") || strings.Contains(out, "warning") {
		t.Error(out)
	}
	write(t, filepath.Dir(path), "sidecar.yaml", config.Data["sidecar.yaml"]+"\nretries: 3\n")
	if out, err := command(".", sidecarBinary(t), "validate", path); err == nil {
		t.Errorf("a key that does not exist passes: %s", out)
	}
}

// TestManifests_TimesOfTheEnd: pause, the app's drain and the sidecar's fit the
// grace period, and leave the app a part of its own.
func TestManifests_TimesOfTheEnd(t *testing.T) {
	t.Parallel()
	all := build(t, "example")
	var config struct {
		Shutdown struct {
			DrainTimeout time.Duration `yaml:"drain_timeout"`
		}
	}
	if err := yaml.Unmarshal([]byte(one[*corev1.ConfigMap](t, all).Data["sidecar.yaml"]), &config); err != nil {
		t.Fatal(err)
	}
	pod := one[*appsv1.Deployment](t, all).Spec.Template.Spec
	grace := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second
	pause := time.Duration(pod.Containers[0].Lifecycle.PreStop.Sleep.Seconds) * time.Second
	left := grace - pause - config.Shutdown.DrainTimeout
	if config.Shutdown.DrainTimeout == 0 || pause == 0 || left < 20*time.Second {
		t.Errorf("grace %s, pause %s, drain %s: %s are left for the app's own drain, want 20s", grace, pause, config.Shutdown.DrainTimeout, left)
	}
	if lifecycle := pod.InitContainers[0].Lifecycle; lifecycle != nil {
		t.Errorf("the sidecar has %v; its preStop would run in parallel to the app's", lifecycle)
	}
}

// TestManifests_AppCallsTheSidecar: every address that the app is given is one
// that the sidecar listens on.
func TestManifests_AppCallsTheSidecar(t *testing.T) {
	t.Parallel()
	all := build(t, "example")
	var config struct{ Dependencies []struct{ Listen string } }
	if err := yaml.Unmarshal([]byte(one[*corev1.ConfigMap](t, all).Data["sidecar.yaml"]), &config); err != nil {
		t.Fatal(err)
	}
	var listens, calls []string
	for _, d := range config.Dependencies {
		listens = append(listens, "http://"+d.Listen)
	}
	for _, e := range one[*appsv1.Deployment](t, all).Spec.Template.Spec.Containers[0].Env {
		if strings.HasSuffix(e.Name, "_URL") {
			calls = append(calls, e.Value)
		}
	}
	slices.Sort(listens)
	slices.Sort(calls)
	if len(listens) != 2 || !slices.Equal(listens, calls) {
		t.Errorf("the app calls %v, the sidecar listens on %v", calls, listens)
	}
}

// TestManifests_Names: labels, annotations and ports are what the API server
// takes, and every port that is named from elsewhere exists.
func TestManifests_Names(t *testing.T) {
	t.Parallel()
	all := build(t, "example")
	template := one[*appsv1.Deployment](t, all).Spec.Template
	ports := map[string]bool{}
	for _, c := range slices.Concat(template.Spec.InitContainers, template.Spec.Containers) {
		for _, p := range c.Ports {
			ports[p.Name] = true
			for _, fault := range validation.IsValidPortName(p.Name) {
				t.Errorf("port %q: %s", p.Name, fault)
			}
		}
		for _, probe := range []*corev1.Probe{c.StartupProbe, c.ReadinessProbe} {
			if probe != nil && probe.HTTPGet != nil && !ports[probe.HTTPGet.Port.String()] {
				t.Errorf("%s is probed on the port %q, which it does not have", c.Name, probe.HTTPGet.Port.String())
			}
		}
	}
	monitor := one[*monitoringv1.PodMonitor](t, build(t, "monitoring"))
	named := []string{*monitor.Spec.PodMetricsEndpoints[0].Port}
	for _, rule := range one[*networkingv1.NetworkPolicy](t, all).Spec.Ingress {
		for _, p := range rule.Ports {
			named = append(named, p.Port.String())
		}
	}
	for _, name := range append(named, one[*corev1.Service](t, all).Spec.Ports[0].TargetPort.String()) {
		if !ports[name] {
			t.Errorf("port %q is named, and no container has it", name)
		}
	}
	for key, value := range template.Labels {
		for _, fault := range slices.Concat(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)) {
			t.Errorf("label %s=%s: %s", key, value, fault)
		}
	}
}

// TestManifests_Selectors: PodMonitor, NetworkPolicy, Service and Deployment
// choose the pod.
func TestManifests_Selectors(t *testing.T) {
	t.Parallel()
	all := build(t, "example")
	deployment, policy := one[*appsv1.Deployment](t, all), one[*networkingv1.NetworkPolicy](t, all)
	pod := labels.Set(deployment.Spec.Template.Labels)
	for who, selector := range map[string]*metav1.LabelSelector{
		"the Deployment":    deployment.Spec.Selector,
		"the NetworkPolicy": &policy.Spec.PodSelector,
		"the Service":       {MatchLabels: one[*corev1.Service](t, all).Spec.Selector},
		"the PodMonitor":    &one[*monitoringv1.PodMonitor](t, build(t, "monitoring")).Spec.Selector,
	} {
		s, err := metav1.LabelSelectorAsSelector(selector)
		if err != nil {
			t.Fatal(err)
		}
		if s.Empty() || !s.Matches(pod) {
			t.Errorf("%s selects %s, the pod has %s", who, s, pod)
		}
		if s.Matches(labels.Set{"app.kubernetes.io/name": "other"}) {
			t.Errorf("%s selects pods that are not its own", who)
		}
	}
}
