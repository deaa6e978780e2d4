package deploy

import (
	"context"
	"slices"
	"strings"
	"testing"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// variable is a policy's variable as the compiler wants it.
type variable admissionv1.Variable

func (v variable) GetName() string            { return v.Name }
func (v variable) GetExpression() string      { return v.Expression }
func (v variable) ReturnTypes() []*celgo.Type { return []*celgo.Type{celgo.AnyType, celgo.DynType} }

// admit puts a new pod before the policy, as the API server does: variables,
// match conditions and the JSON patch are compiled and evaluated by its own
// packages. It returns the pod as it comes out, and whether the policy cared.
func admit(p *admissionv1.MutatingAdmissionPolicy, pod *corev1.Pod) (*corev1.Pod, bool, error) {
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		return nil, false, err
	}
	options := cel.OptionalVariableDeclarations{HasAuthorizer: true}
	for _, v := range p.Spec.Variables {
		if r := compiler.CompileAndStoreVariable(variable(v), options, environment.StoredExpressions); r.Error != nil {
			return nil, false, r.Error
		}
	}
	conditions := make([]cel.ExpressionAccessor, len(p.Spec.MatchConditions))
	for i := range p.Spec.MatchConditions {
		conditions[i] = (*matchconditions.MatchCondition)(&p.Spec.MatchConditions[i])
	}
	gvk := corev1.SchemeGroupVersion.WithKind("Pod")
	gvr := corev1.SchemeGroupVersion.WithResource("pods")
	attributes := &admission.VersionedAttributes{
		Attributes:    admission.NewAttributesRecord(pod, nil, gvk, pod.Namespace, pod.Name, gvr, "", admission.Create, &metav1.CreateOptions{}, false, nil),
		VersionedKind: gvk, VersionedObject: admission.NewLazyObject(pod), VersionedOldObject: admission.NewLazyObject(nil),
	}
	ctx := compiler.CreateContext(context.Background())
	matcher := matchconditions.NewMatcher(compiler.CompileCondition(conditions, options, environment.StoredExpressions), p.Spec.FailurePolicy, "policy", "", p.Name)
	if match := matcher.Match(ctx, attributes, nil, nil); match.Error != nil || !match.Matches {
		return pod, false, match.Error
	}
	options.HasPatchTypes = true
	evaluator := compiler.CompileMutatingEvaluator(&patch.JSONPatchCondition{Expression: p.Spec.Mutations[0].JSONPatch.Expression}, options, environment.StoredExpressions)
	patched, err := patch.NewJSONPatcher(evaluator).Patch(ctx, patch.Request{
		MatchedResource: gvr, VersionedAttributes: attributes, ObjectInterfaces: admission.NewObjectInterfacesFromScheme(scheme),
	}, celconfig.RuntimeCELCostBudget)
	if err != nil {
		return nil, true, err
	}
	return patched.(*corev1.Pod), true, nil
}

// mustAdmit is admit for a pod that the policy must change.
func mustAdmit(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	got, matched, err := admit(policyOf(t), pod)
	if err != nil || !matched {
		t.Fatalf("the policy cares: %v, error: %v", matched, err)
	}
	return got
}

func policyOf(t *testing.T) *admissionv1.MutatingAdmissionPolicy {
	t.Helper()
	return one[*admissionv1.MutatingAdmissionPolicy](t, build(t, "inject"))
}

func barePod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "shop", Labels: map[string]string{"sidecar/inject": "true"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app"}}},
	}
}

// TestPolicy_SameAsComponent: both ways to the sidecar end at the same
// container, volume and label.
func TestPolicy_SameAsComponent(t *testing.T) {
	t.Parallel()
	all, err := buildCase(t, componentCase+"images: [{name: sidecar, newName: registry.example/sidecar, newTag: v1.0.0}]\n", deploymentCase)
	if err != nil {
		t.Fatal(err)
	}
	deployments := of[*appsv1.Deployment](all)
	asked := slices.IndexFunc(deployments, func(d *appsv1.Deployment) bool { return d.Name == "asked" })
	want := deployments[asked].Spec.Template
	pod := barePod()
	pod.Spec.InitContainers = []corev1.Container{{Name: "migrate", Image: "migrate"}, {Name: "warm", Image: "warm"}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "own"}}
	got := mustAdmit(t, pod)
	if d := cmp.Diff(want.Spec.InitContainers, got.Spec.InitContainers); d != "" {
		t.Errorf("the init containers of component and policy differ (-component +policy):\n%s", d)
	}
	volume := func(all []corev1.Volume) corev1.Volume {
		return all[slices.IndexFunc(all, func(v corev1.Volume) bool { return v.Name == "sidecar-config" })]
	}
	if d := cmp.Diff(volume(want.Spec.Volumes), volume(got.Spec.Volumes)); d != "" || len(got.Spec.Volumes) != 2 {
		t.Errorf("the volumes of component and policy differ (-component +policy):\n%s", d)
	}
	if got.Labels["sidecar/injected"] != want.Labels["sidecar/injected"] || got.Labels["sidecar/inject"] != "true" {
		t.Errorf("the labels are %v", got.Labels)
	}
}

// TestPolicy_BarePod: a pod without init containers, volumes and annotations
// gets all that the patch needs.
func TestPolicy_BarePod(t *testing.T) {
	t.Parallel()
	got := mustAdmit(t, barePod())
	if names := containerNames(got.Spec.InitContainers); names != "sidecar " {
		t.Fatalf("the init containers are %s", names)
	}
	checkMount(t, got.Spec, "sidecar")
	if image := got.Spec.InitContainers[0].Image; image != "registry.example/sidecar:v1.0.0" {
		t.Errorf("the image is %s", image)
	}
}

// TestPolicy_ConfigAnnotation: a pod can name its ConfigMap.
func TestPolicy_ConfigAnnotation(t *testing.T) {
	t.Parallel()
	pod := barePod()
	pod.Annotations = map[string]string{"sidecar/config": "checkout-sidecar"}
	got := mustAdmit(t, pod)
	checkMount(t, got.Spec, "checkout-sidecar")
}

// TestPolicy_OnlyOnce: a pod that has the sidecar, from the component or from
// an earlier round of admission, is left alone.
func TestPolicy_OnlyOnce(t *testing.T) {
	t.Parallel()
	first := mustAdmit(t, barePod())
	if _, matched, err := admit(policyOf(t), first); matched || err != nil {
		t.Errorf("the policy would add a second sidecar: %v, error: %v", matched, err)
	}
}

// TestPolicy_SeesSlips: what these tests rely on to find a slip of the pen in
// an expression, before the first pod does.
func TestPolicy_SeesSlips(t *testing.T) {
	t.Parallel()
	for right, wrong := range map[string]string{
		"restartPolicy:":        "restartPolice:",
		"variables.config":      "variables.configmap",
		"periodSeconds: 1,":     "periodSeconds: '1',",
		"/spec/initContainers/": "/spec/initContainer/",
	} {
		p := policyOf(t)
		expression := &p.Spec.Mutations[0].JSONPatch.Expression
		if !strings.Contains(*expression, right) {
			t.Fatalf("the expression has no %q", right)
		}
		*expression = strings.Replace(*expression, right, wrong, 1)
		if _, _, err := admit(p, barePod()); err == nil {
			t.Errorf("%q instead of %q passes", wrong, right)
		}
	}
}

// TestPolicy_Scope: only pods that are made, and only where pod and namespace
// ask for it; a failure keeps the pod from starting without its sidecar.
func TestPolicy_Scope(t *testing.T) {
	t.Parallel()
	p := policyOf(t)
	if *p.Spec.FailurePolicy != admissionv1.Fail {
		t.Errorf("the failure policy is %s", *p.Spec.FailurePolicy)
	}
	if s := p.Spec.MatchConstraints.ObjectSelector; s == nil || s.MatchLabels["sidecar/inject"] != "true" {
		t.Errorf("the object selector is %v", s)
	}
	b := one[*admissionv1.MutatingAdmissionPolicyBinding](t, build(t, "inject"))
	if b.Spec.PolicyName != p.Name || b.Spec.MatchResources.NamespaceSelector.MatchLabels["sidecar/inject"] != "enabled" {
		t.Errorf("the binding is %+v", b.Spec)
	}
}
