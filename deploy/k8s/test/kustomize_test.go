package deploy

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// scheme knows every kind that the manifests use.
var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, networkingv1.AddToScheme, admissionv1.AddToScheme, monitoringv1.AddToScheme,
	} {
		utilruntime.Must(add(s))
	}
	return s
}()

// decode reads one object and refuses what its type does not know: unknown and
// duplicate fields, wrong types.
func decode(manifest []byte) (runtime.Object, error) {
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	object, _, err := decoder.Decode(manifest, nil, nil)
	return object, err
}

// objects are the manifests of one kustomization.
type objects []runtime.Object

// kustomize builds a folder.
func kustomize(dir string) (objects, error) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, err
	}
	var all objects
	for _, resource := range built.Resources() {
		manifest, err := resource.AsYAML()
		if err != nil {
			return nil, err
		}
		object, err := decode(manifest)
		if err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", resource.CurId(), err, manifest)
		}
		all = append(all, object)
	}
	return all, nil
}

// build is kustomize for a folder of deploy/k8s.
func build(t *testing.T, folder string) objects {
	t.Helper()
	all, err := kustomize(filepath.Join(kubernetes, folder))
	if err != nil {
		t.Fatalf("%s: %v", folder, err)
	}
	return all
}

// buildCase builds a kustomization that uses the component, and resources of
// its own, both as text.
func buildCase(t *testing.T, kustomization, resources string) (objects, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "component"), os.DirFS(filepath.Join(kubernetes, "component"))); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "case/kustomization.yaml", kustomization)
	write(t, dir, "case/resources.yaml", resources)
	return kustomize(filepath.Join(dir, "case"))
}

// of returns all objects of a type.
func of[T runtime.Object](all objects) []T {
	var found []T
	for _, object := range all {
		if o, ok := object.(T); ok {
			found = append(found, o)
		}
	}
	return found
}

// one returns the only object of a type.
func one[T runtime.Object](t *testing.T, all objects) T {
	t.Helper()
	found := of[T](all)
	if len(found) != 1 {
		var kind T
		t.Fatalf("%d objects of type %T, want 1", len(found), kind)
	}
	return found[0]
}
