package deploy

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	podsecurity "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

const deploymentCase = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: plain, labels: {app: plain}}
spec:
  selector: {matchLabels: {app: plain}}
  template:
    metadata: {labels: {app: plain}}
    spec: {containers: [{name: plain, image: plain}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: asked, labels: {app: asked, sidecar/inject: "true"}}
spec:
  selector: {matchLabels: {app: asked}}
  template:
    metadata: {labels: {app: asked}}
    spec:
      initContainers: [{name: migrate, image: migrate}, {name: warm, image: warm}]
      containers: [{name: asked, image: asked, volumeMounts: [{name: own, mountPath: /own}]}]
      volumes: [{name: own, emptyDir: {}}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: refused, labels: {app: refused, sidecar/inject: "false"}}
spec:
  selector: {matchLabels: {app: refused}}
  template:
    metadata: {labels: {app: refused}}
    spec: {containers: [{name: refused, image: refused}]}
`

const componentCase = `
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [resources.yaml]
components: [../component]
`

// TestComponent_ByLabel: only a Deployment that asks gets the sidecar, before
// its init containers, and keeps what it had.
func TestComponent_ByLabel(t *testing.T) {
	t.Parallel()
	all, err := buildCase(t, componentCase, deploymentCase)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range of[*appsv1.Deployment](all) {
		pod := d.Spec.Template.Spec
		if d.Name != "asked" {
			if len(pod.InitContainers)+len(pod.Volumes) != 0 || len(d.Spec.Template.Labels) != 1 {
				t.Errorf("%s did not ask for the sidecar and got %+v", d.Name, d.Spec.Template)
			}
			continue
		}
		if names := containerNames(pod.InitContainers); names != "sidecar migrate warm " {
			t.Errorf("the init containers are %s", names)
		}
		if names := containerNames(pod.Containers); names != "asked " || pod.Containers[0].VolumeMounts[0].Name != "own" {
			t.Errorf("the containers are %s, mounts %v", names, pod.Containers[0].VolumeMounts)
		}
		if len(pod.Volumes) != 2 {
			t.Errorf("the volumes are %v", pod.Volumes)
		}
		if d.Spec.Template.Labels["sidecar/injected"] != "true" || d.Spec.Template.Labels["app"] != "asked" {
			t.Errorf("the labels are %v", d.Spec.Template.Labels)
		}
	}
}

func containerNames(all []corev1.Container) (names string) {
	for _, c := range all {
		names += c.Name + " "
	}
	return names
}

// TestComponent_TwoAppsInOneNamespace: a prefix gives each app its own
// ConfigMap, and the volume follows.
func TestComponent_TwoAppsInOneNamespace(t *testing.T) {
	t.Parallel()
	all, err := buildCase(t, componentCase+`
namePrefix: one-
configMapGenerator: [{name: sidecar, literals: [sidecar.yaml=x], options: {disableNameSuffixHash: true}}]
`, deploymentCase)
	if err != nil {
		t.Fatal(err)
	}
	if name := one[*corev1.ConfigMap](t, all).Name; name != "one-sidecar" {
		t.Errorf("the ConfigMap is %s", name)
	}
	for _, d := range of[*appsv1.Deployment](all) {
		if d.Name == "one-asked" {
			checkMount(t, d.Spec.Template.Spec, "one-sidecar")
			return
		}
	}
	t.Error("the Deployment is gone")
}

// checkMount wants the configuration mounted as a directory, from the wanted
// ConfigMap: a file mounted by subPath never changes.
func checkMount(t *testing.T, pod corev1.PodSpec, configMap string) {
	t.Helper()
	mounts := pod.InitContainers[0].VolumeMounts
	if len(mounts) != 1 || mounts[0].MountPath != "/etc/sidecar" || mounts[0].SubPath != "" || mounts[0].SubPathExpr != "" || !mounts[0].ReadOnly {
		t.Fatalf("the sidecar's mounts are %+v", mounts)
	}
	for _, v := range pod.Volumes {
		if v.Name == mounts[0].Name {
			if v.ConfigMap == nil || v.ConfigMap.Name != configMap || len(v.ConfigMap.Items) != 0 {
				t.Errorf("the volume is %+v, want the ConfigMap %s whole", v, configMap)
			}
			return
		}
	}
	t.Errorf("no volume %s in %v", mounts[0].Name, pod.Volumes)
}

// TestComponent_NativeSidecar: the container starts first, is probed by its
// own binary and on a port that it has, and says where the configuration is.
func TestComponent_NativeSidecar(t *testing.T) {
	t.Parallel()
	pod := one[*appsv1.Deployment](t, build(t, "example")).Spec.Template.Spec
	checkMount(t, pod, "sidecar")
	c := pod.InitContainers[0]
	if c.Name != "sidecar" || c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways {
		t.Errorf("the first init container is %s with restart policy %v", c.Name, c.RestartPolicy)
	}
	if p := c.StartupProbe; p == nil || p.Exec == nil || len(p.Exec.Command) != 2 || p.Exec.Command[0] != "/sidecar" || p.Exec.Command[1] != "healthcheck" {
		t.Errorf("the startup probe is %+v", p)
	}
	if p := c.ReadinessProbe; p == nil || p.HTTPGet == nil || p.HTTPGet.Path != "/readyz" || p.HTTPGet.Port.String() != c.Ports[0].Name {
		t.Errorf("the readiness probe is %+v", p)
	}
	env := map[string]string{}
	for _, e := range c.Env {
		env[e.Name] = e.Value
	}
	if env["SIDECAR_CONFIG"] != c.VolumeMounts[0].MountPath+"/sidecar.yaml" || env["SIDECAR_METRICS_LISTEN"] != "0.0.0.0:9901" || c.Ports[0].ContainerPort != 9901 {
		t.Errorf("environment %v, ports %v", env, c.Ports)
	}
	if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() || !c.Resources.Limits.Cpu().IsZero() {
		t.Errorf("the resources are %+v", c.Resources)
	}
}

// TestComponent_RestrictedPodSecurity: the restricted standard admits the pod,
// and would not without any one of the settings.
func TestComponent_RestrictedPodSecurity(t *testing.T) {
	t.Parallel()
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	restricted := podsecurity.LevelVersion{Level: podsecurity.LevelRestricted, Version: podsecurity.LatestVersion()}
	template := one[*appsv1.Deployment](t, build(t, "example")).Spec.Template
	faults := func(change func(*corev1.PodSpec)) string {
		pod := template.DeepCopy()
		change(&pod.Spec)
		result := policy.AggregateCheckResults(evaluator.EvaluatePod(restricted, &pod.ObjectMeta, &pod.Spec))
		return result.ForbiddenDetail()
	}
	if why := faults(func(*corev1.PodSpec) {}); why != "" {
		t.Errorf("the restricted standard refuses the pod: %s", why)
	}
	// The sidecar must not lean on what the pod says: another app's pod may
	// not say it.
	if why := faults(func(p *corev1.PodSpec) { p.SecurityContext, p.Containers = nil, nil }); why != "" {
		t.Errorf("the restricted standard refuses the sidecar alone: %s", why)
	}
	for what, change := range map[string]func(*corev1.SecurityContext){
		"runAsNonRoot":             func(s *corev1.SecurityContext) { s.RunAsNonRoot = nil },
		"allowPrivilegeEscalation": func(s *corev1.SecurityContext) { s.AllowPrivilegeEscalation = nil },
		"capabilities":             func(s *corev1.SecurityContext) { s.Capabilities = nil },
		"seccompProfile":           func(s *corev1.SecurityContext) { s.SeccompProfile = nil },
	} {
		if faults(func(p *corev1.PodSpec) {
			p.SecurityContext = nil
			change(p.InitContainers[0].SecurityContext)
		}) == "" {
			t.Errorf("the standard admits a sidecar without %s: this test sees nothing", what)
		}
	}
	if s := template.Spec.InitContainers[0].SecurityContext; s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
		t.Error("the sidecar's root file system can be written")
	}
}
