package config

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// desk is a folder with a configuration and somebody who writes it, in a bubble
// of virtual time. No two writings have the same size, since the system's clock
// of files stands nearly still there.
type desk struct {
	*testing.T
	dir     string
	source  *Source
	began   time.Time
	writes  int
	warned  []string
	read    []string // each reading that had something new, with its time
	notices *notices
	ends    context.CancelFunc
	reading chan struct{} // held by the one reading: they must not overlap, and a bubble's time stands still for a mutex
}

// at returns a bubble's test with a configuration that was loaded and is
// followed.
func at(t *testing.T, test func(*desk)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d := &desk{T: t, dir: dir, notices: &notices{wake: make(chan struct{}, 1)}, reading: make(chan struct{}, 1)}
		d.source = NewSource(filepath.Join(dir, "sidecar.yaml"), Process{})
		d.put("sidecar.yaml", d.limit(1))
		if _, err := d.source.Load(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		d.ends, d.began = cancel, time.Now()
		defer cancel()
		go d.source.follow(ctx, d.notices, func(w string) { d.warned = append(d.warned, w) }, d.changed)
		synctest.Wait()
		test(d)
		cancel()
		synctest.Wait()
	})
}

// limit is a configuration that tells which it is.
func (d *desk) limit(n int) string {
	return fmt.Sprintf("dependencies: []\nlimits: {max_concurrent: %d}\n", n)
}

// reload asks for a reading.
func (d *desk) reload() (*Config, error) {
	d.reading <- struct{}{}
	defer func() { <-d.reading }()
	return d.source.Reload(d.Context())
}

func (d *desk) changed() {
	d.reading <- struct{}{}
	defer func() { <-d.reading }()
	c, changed, err := d.source.Changed()
	if !changed {
		return
	}
	what := "refused"
	if err == nil {
		what = fmt.Sprint(c.Limits.MaxConcurrent)
		for _, dep := range c.Dependencies {
			what += " " + dep.Name
			for _, f := range dep.Fallback {
				what += "=" + string(f.Static.Body)
			}
		}
	}
	d.read = append(d.read, fmt.Sprintf("%s at %s", what, time.Since(d.began)))
}

// put writes a file as it is, without a notice.
func (d *desk) put(name, text string) {
	d.Helper()
	d.writes++
	if name == "sidecar.yaml" && text != "" {
		text += strings.Repeat("#", d.writes)
	}
	if err := os.WriteFile(filepath.Join(d.dir, name), []byte(text), 0o600); err != nil {
		d.Fatal(err)
	}
}

// write writes a file, and the system notices.
func (d *desk) write(name, text string) {
	d.Helper()
	d.put(name, text)
	d.notices.hurry()
}

func (d *desk) remove(name string) {
	d.Helper()
	if err := os.Remove(filepath.Join(d.dir, name)); err != nil {
		d.Fatal(err)
	}
	d.notices.hurry()
}

// wants looks at the readings so far and forgets them.
func (d *desk) wants(want ...string) {
	d.Helper()
	synctest.Wait()
	if !slices.Equal(d.read, want) {
		d.Errorf("read %q, want %q", d.read, want)
	}
	d.read = nil
}
