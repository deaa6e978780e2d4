package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// live is within what time a changed file must be in force.
const live = 5 * time.Second

// awaitLive waits until the effective configuration holds a text, without
// asking for a reload.
func (s *sidecar) awaitLive(t *testing.T, what, text string) {
	t.Helper()
	since := time.Now()
	var last []byte
	if !poll(live+noise(since), func() bool {
		var err error
		last, err = s.ask(http.MethodGet, s.url("ADMIN")+"/api/config", "")
		return err == nil && strings.Contains(string(last), text)
	}) {
		t.Fatalf("%s: %q is not live after %s, but\n%s", what, text, time.Since(since), last)
	}
}

// reloads counts the reloads with a result.
func (s *sidecar) reloads(t *testing.T, result string) float64 {
	t.Helper()
	return s.metrics(t).sum(t, "sidecar_config_reloads_total", "result", result)
}

// awaitReloads waits until there have been as many reloads with a result.
func (s *sidecar) awaitReloads(t *testing.T, result string, want int) {
	t.Helper()
	if !poll(patience, func() bool { return s.reloads(t, result) >= float64(want) }) {
		t.Fatalf("%v reloads ended in %s, want %d", s.reloads(t, result), result, want)
	}
}

// rename replaces a file as editors do.
func rename(t *testing.T, path, text string) {
	t.Helper()
	put(t, filepath.Dir(path), filepath.Base(path), []byte(text))
}

// overwrite changes a file in place.
func overwrite(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// drip changes a file in place, a piece at a time.
func drip(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i := range 6 {
		_, err := f.WriteString(text[i*len(text)/6 : (i+1)*len(text)/6])
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// vim replaces a file as vim does with backups: the old one is moved away, a
// new one written in its place, the old one removed.
func vim(t *testing.T, path, text string) {
	t.Helper()
	if err := os.Rename(path, path+"~"); err != nil {
		t.Fatal(err)
	}
	overwrite(t, path, text)
	if err := os.Remove(path + "~"); err != nil {
		t.Fatal(err)
	}
}

// anew deletes a file and writes another a moment later.
func anew(t *testing.T, path, text string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond)
	overwrite(t, path, text)
}

// folderAnew deletes the file's folder with all that is in it and makes it
// again.
func folderAnew(t *testing.T, path, text string) {
	t.Helper()
	if err := os.RemoveAll(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	overwrite(t, path, text)
}

// configMap is a folder that is filled as Kubernetes fills the volume of a
// ConfigMap: the files are links into ..data, which is a link that is swapped.
type configMap struct {
	dir        string
	generation int
}

// swap brings the files into the folder, all at once.
func (m *configMap) swap(t *testing.T, files map[string]string) {
	t.Helper()
	m.generation++
	name := fmt.Sprintf("..2026_01_01_%05d", m.generation)
	if err := os.Mkdir(filepath.Join(m.dir, name), 0o700); err != nil {
		t.Fatal(err)
	}
	for file, text := range files {
		overwrite(t, filepath.Join(m.dir, name, file), text)
	}
	data := filepath.Join(m.dir, "..data")
	old, _ := os.Readlink(data)
	if err := os.Symlink(name, data+"_tmp"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(data+"_tmp", data); err != nil {
		t.Fatal(err)
	}
	for file := range files {
		if link := filepath.Join(m.dir, file); old == "" {
			_ = os.Remove(link)
			if err := os.Symlink("..data/"+file, link); err != nil {
				t.Fatal(err)
			}
		}
	}
	if old != "" {
		if err := os.RemoveAll(filepath.Join(m.dir, old)); err != nil {
			t.Fatal(err)
		}
	}
}

// numbered is a configuration of dependency a that tells which it is.
func numbered(n int) string {
	return base + fmt.Sprintf(`
dependencies:
  - {name: a, listen: $A, upstream: "http://$U", bulkhead: {max_waiting: %d}}
`, n)
}

// showsNumber is how it shows in the effective configuration.
func showsNumber(n int) string { return fmt.Sprintf("max_waiting: %d\n", n) }

// What happened: the first change arrived and later ones did not: the watch was
// lost with the inode or the link, or honoured one kind of event alone.
// Right: every change is live within 5 s, whichever way the file is replaced,
// however often; meanwhile the old configuration serves.
func TestH1_SecondSwapIgnored(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, ok)
	s := start(t, numbered(100), u)
	n, begin := 100, time.Now()
	next := func() (text, shows string) {
		n++
		return s.expand(t, numbered(n)), showsNumber(n)
	}
	volume := &configMap{dir: filepath.Dir(s.path)}
	for _, way := range []struct {
		name   string
		change func(*testing.T, string, string)
	}{
		{"in place", overwrite}, {"slowly", drip}, {"rename", rename}, {"vim", vim}, {"anew", anew}, {"the folder anew", folderAnew},
		{"..data", func(t *testing.T, _, text string) { volume.swap(t, map[string]string{"sidecar.yaml": text}) }},
	} {
		for i := range 3 {
			text, shows := next()
			way.change(t, s.path, text)
			s.awaitLive(t, fmt.Sprintf("%s, change %d", way.name, i+1), shows)
		}
	}
	refused := s.reloads(t, "failure")
	if lateness(begin) > 100*time.Millisecond {
		refused = 0 // this machine may have held the slow writer for 250 ms in the middle of its file
	}
	if changed := s.reloads(t, "success"); changed != float64(n-100) || refused != 0 {
		t.Errorf("%v reloads, %v refused; want one for each of %d changes", changed, refused, n-100)
	}
	lines := s.logs("msg", "configuration reloaded")
	if len(lines) != n-100 || fmt.Sprint(lines[0]["changed"]) != "[a]" {
		t.Errorf("%d changes logged, the first %v; want %d that name the dependency", len(lines), lines[0], n-100)
	}

	refused = s.reloads(t, "failure")
	if err := os.Remove(s.path); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		time.Sleep(100 * time.Millisecond)
		if r := s.get("A", "/"); r.status != http.StatusOK {
			t.Errorf("without the file: %v", r)
		}
	}
	s.awaitLive(t, "without the file", showsNumber(n))
	text, shows := next()
	overwrite(t, s.path, text)
	s.awaitLive(t, "after its absence", shows)
	if n := len(s.logs("level", "warn", "msg", s.path+" is missing or empty; the running configuration stays")); n != 1 {
		t.Errorf("the absence was logged %d times, want once", n)
	}
	if now := s.reloads(t, "failure"); now != refused {
		t.Errorf("the absence counted as %v failures", now-refused)
	}
}

// The files that the configuration names are part of it: a body that lives in
// the same ConfigMap is never mixed with another generation's policy.
func TestWatch_NamedFiles(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, fails(http.StatusInternalServerError))
	s := start(t, base+`
dependencies:
  - {name: a, listen: $A, upstream: "http://$U", fallback: [{static: {status: 250, body: "0"}}]}
`, u)
	volume := &configMap{dir: filepath.Dir(s.path)}
	generation := func(n int) map[string]string {
		return map[string]string{
			"body.txt": fmt.Sprint(n),
			"sidecar.yaml": s.expand(t, base+fmt.Sprintf(`
dependencies:
  - {name: a, listen: $A, upstream: "http://$U", fallback: [{static: {status: %d, body_file: body.txt}}]}
`, 250+n)),
		}
	}
	s.get("A", "/")
	mixed := make(chan string, 1)
	calls := startLoad(50, time.Minute, func(int) result {
		r := s.get("A", "/")
		if r.body != fmt.Sprint(r.status-250) {
			select {
			case mixed <- r.String():
			default:
			}
		}
		return r
	})
	for n := 1; n <= 4; n++ {
		volume.swap(t, generation(n))
		if !poll(live, func() bool { return s.get("A", "/").status == 250+n }) {
			t.Fatalf("generation %d is not live: %v", n, s.get("A", "/"))
		}
	}
	// The body alone.
	files := generation(4)
	files["body.txt"] = "04"
	calls.stop()
	calls.wait()
	volume.swap(t, files)
	if !poll(live, func() bool { return s.get("A", "/").body == "04" }) {
		t.Errorf("the changed body is not live: %v", s.get("A", "/"))
	}
	select {
	case r := <-mixed:
		t.Errorf("generations were mixed: %s", r)
	default:
	}
	s.wantMetric(t, 5, "sidecar_config_reloads_total", "result", "success")
	s.wantMetric(t, 0, "sidecar_config_reloads_total", "result", "failure")
}

// What was written with the bytes of before changes nothing and counts nothing;
// a broken file is told once; one that is mended counts, even where it is that
// of before.
func TestWatch_EqualAndBroken(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, ok)
	s := start(t, numbered(100), u)
	data, err := os.ReadFile(s.path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for range 3 {
		rename(t, s.path, text)
		time.Sleep(400 * time.Millisecond)
		overwrite(t, s.path, "") // in the middle of an editor's work
		time.Sleep(50 * time.Millisecond)
		overwrite(t, s.path, text)
		time.Sleep(400 * time.Millisecond)
	}
	s.wantMetric(t, 0, "sidecar_config_reloads_total", "result", "success")
	rename(t, s.path, "dependencies: [")
	s.awaitReloads(t, "failure", 1)
	rename(t, s.path, "dependencies: [")
	time.Sleep(2500 * time.Millisecond) // longer than the slow look
	s.wantMetric(t, 1, "sidecar_config_reloads_total", "result", "failure")
	if n := len(s.logs("msg", "configuration not reloaded")); n != 1 {
		t.Errorf("the broken file was logged %d times, want once", n)
	}
	rename(t, s.path, text)
	s.awaitReloads(t, "success", 1)
	s.wantMetric(t, 1, "sidecar_config_last_reload_successful")
	s.wantMetric(t, 1, "sidecar_config_reloads_total", "result", "success")
	if lines := s.logs("msg", "configuration reloaded"); len(lines) != 1 || lines[0]["changed"] != nil {
		t.Errorf("the mended file is logged as %v, want no change in it", lines)
	}
}
