package deploy

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

// Bounds of the image's size, uncompressed. A stand-in for the base image is
// smaller than the real one, which is given a share of its own.
const (
	imageLimit = 25_000_000
	baseShare  = 3_000_000
)

// image is an image as it is stored: its configuration and its files.
type image struct {
	Config struct {
		User                 string
		Entrypoint, Cmd, Env []string
		Healthcheck          struct{ Test []string }
	}
	size  int64
	files map[string]int64 // modes by absolute path
	bin   []byte           // the sidecar
}

// TestImage builds the Dockerfile as it is and looks at what comes out: small,
// static, not root, without a shell, with a health check.
func TestImage(t *testing.T) {
	b := newBuilder(t)
	b.build(t)
	img := b.save(t)
	if limit := int64(imageLimit - b.standInShare()); img.size > limit {
		t.Errorf("the image has %d bytes, want at most %d", img.size, limit)
	}
	t.Logf("%d bytes in %d files", img.size, len(img.files))
	if user, _, _ := strings.Cut(img.Config.User, ":"); user != "65532" {
		t.Errorf("the image runs as %q, want 65532 as a number, which runAsNonRoot can judge", img.Config.User)
	}
	if !slices.Equal(img.Config.Entrypoint, []string{"/sidecar"}) || !slices.Equal(img.Config.Cmd, []string{"run"}) {
		t.Errorf("it starts %q %q", img.Config.Entrypoint, img.Config.Cmd)
	}
	if !slices.Equal(img.Config.Healthcheck.Test, []string{"CMD", "/sidecar", "healthcheck"}) {
		t.Errorf("its health check is %q", img.Config.Healthcheck.Test)
	}
	if !slices.Contains(img.Config.Env, "SIDECAR_CONFIG=/etc/sidecar/sidecar.yaml") {
		t.Errorf("its environment is %q", img.Config.Env)
	}
	for file := range img.files {
		if slices.Contains([]string{"sh", "bash", "ash", "dash", "busybox", "zsh"}, path.Base(file)) {
			t.Errorf("it has a shell: %s", file)
		}
	}
	if mode := img.files["/sidecar"] & 0o777; mode != 0o755 {
		t.Errorf("/sidecar has the mode %o", mode)
	}
	checkStatic(t, img.bin)
	t.Run("run", func(t *testing.T) { b.run(t) })
}

// checkStatic wants a binary that needs no other file: no interpreter, no
// library.
func checkStatic(t *testing.T, binary []byte) {
	t.Helper()
	file, err := elf.NewFile(bytes.NewReader(binary))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("the binary is not static: it has %s", p.Type)
		}
	}
}

// save returns the image as buildah writes it out.
func (b *builder) save(t *testing.T) *image {
	t.Helper()
	archive := path.Join(b.dir, "image.tar")
	b.buildah(t, "push", "--quiet", b.tag, "docker-archive:"+archive)
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	img := &image{files: map[string]int64{}}
	eachFile(t, f, func(h *tar.Header, content io.Reader) {
		switch {
		case h.Name == "manifest.json" || h.Typeflag != tar.TypeReg:
		case strings.HasSuffix(h.Name, ".json"):
			if err := json.NewDecoder(content).Decode(img); err != nil {
				t.Fatal(err)
			}
		case strings.HasSuffix(h.Name, ".tar"):
			eachFile(t, content, img.add(t))
		}
	})
	return img
}

// add takes in a file of a layer.
func (img *image) add(t *testing.T) func(*tar.Header, io.Reader) {
	return func(h *tar.Header, content io.Reader) {
		name := path.Join("/", h.Name)
		img.files[name] = h.Mode
		img.size += h.Size
		if name == "/sidecar" {
			var err error
			if img.bin, err = io.ReadAll(content); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// eachFile walks through an archive.
func eachFile(t *testing.T, archive io.Reader, do func(*tar.Header, io.Reader)) {
	t.Helper()
	for entries := tar.NewReader(archive); ; {
		h, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		do(h, entries)
	}
}
