package deploy

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// run starts the image as a pod would: the example's configuration as a
// directory, a root that cannot be written, no capabilities, no user but its
// own. Then it asks for its health and ends it.
func (b *builder) run(t *testing.T) {
	podman, runc := need(t, "podman", "podman"), need(t, "runc", "runc")
	config := t.TempDir()
	write(t, config, "sidecar.yaml", one[*corev1.ConfigMap](t, build(t, "example")).Data["sidecar.yaml"])
	if err := os.Chmod(config, 0o755); err != nil {
		t.Fatal(err)
	}
	pod := func(args ...string) (string, error) {
		return b.command(podman, append([]string{"--runtime", runc}, args...)...)
	}
	name := fmt.Sprintf("sidecar-test-%d", os.Getpid())
	t.Cleanup(func() {
		if out, err := pod("rm", "--force", "--ignore", name); err != nil {
			t.Error(err, out)
		}
	})
	// The limits are given, since podman would raise them, which not every
	// machine allows.
	if out, err := pod("run", "--detach", "--name", name, "--network", "none", "--read-only", "--cap-drop", "all",
		"--security-opt", "no-new-privileges", "--ulimit", "nofile=4096", "--ulimit", "nproc=4096",
		"--volume", config+":/etc/sidecar:ro", b.tag); err != nil {
		t.Skipf("podman cannot start a container here, so the image was not run: %v %s", err, out)
	}
	eventually(t, "the health check of the running image", func() bool {
		_, err := pod("exec", name, "/sidecar", "healthcheck")
		return err == nil
	})
	if out, err := pod("healthcheck", "run", name); err != nil {
		t.Errorf("the image's own health check: %v %s", err, out)
	}
	if out, err := pod("exec", name, "/bin/sh", "-c", "true"); err == nil {
		t.Errorf("a shell runs in it: %s", out)
	}
	pid, err := pod("inspect", "--format", "{{.State.Pid}}", name)
	if err != nil {
		t.Fatal(err)
	}
	checkStatus(t, strings.TrimSpace(pid))
	if out, err := pod("stop", "--time", "20", name); err != nil {
		t.Error(err, out)
	}
	if code, err := pod("inspect", "--format", "{{.State.ExitCode}}", name); err != nil || strings.TrimSpace(code) != "0" {
		t.Errorf("after SIGTERM the exit code is %s %v", code, err)
	}
	if out, err := pod("logs", name); err != nil || !strings.Contains(out, `"msg":"drained"`) {
		t.Errorf("it did not drain: %v\n%s", err, out)
	}
}

// checkStatus wants a process without root, without any capability and with a
// root file system that cannot be written.
func checkStatus(t *testing.T, pid string) {
	t.Helper()
	status := read(t, filepath.Join("/proc", pid, "status"))
	for _, want := range []string{"Uid:\t65532\t65532\t65532\t65532\n", "CapEff:\t0000000000000000\n", "CapBnd:\t0000000000000000\n", "NoNewPrivs:\t1\n"} {
		if !strings.Contains(status, want) {
			t.Errorf("the process has not %q:\n%s", want, status)
		}
	}
	if mounts := read(t, filepath.Join("/proc", pid, "mountinfo")); !strings.Contains(mounts, " / / ro,") {
		t.Errorf("its root can be written:\n%s", mounts)
	}
}
