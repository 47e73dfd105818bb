// Package envtest tests with a server of envtest. Nothing in it is specific to Binnacle: KUBEBUILDER_ASSETS names the folder
// with the programs.
package envtest

import (
	"context"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

var objects client.Client

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

// run starts a control plane for all tests of the package.
func run(m *testing.M) int {
	environment := &envtest.Environment{}
	config, err := environment.Start()
	if err != nil {
		panic(err)
	}
	defer environment.Stop()
	objects, err = client.New(config, client.Options{})
	if err != nil {
		panic(err)
	}
	return m.Run()
}

func TestCreatesPods(t *testing.T) {
	ctx := context.Background()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx"}}},
	}
	if err := objects.Create(ctx, pod); err != nil {
		t.Fatal(err)
	}
	if err := objects.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
		t.Fatal(err)
	}
	// No controllers and no nodes run.
	if pod.Status.Phase != corev1.PodPending {
		t.Errorf("the pod is %s", pod.Status.Phase)
	}
}

func TestRejectsInvalidObjects(t *testing.T) {
	invalid := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "No Name"}}
	if err := objects.Create(context.Background(), invalid); !apierrors.IsInvalid(err) {
		t.Errorf("want an invalid object, got %v", err)
	}
}
