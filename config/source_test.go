package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestChangeIsReadOnceItIsQuiet(t *testing.T) {
	at(t, func(d *desk) {
		time.Sleep(500 * time.Millisecond)
		d.write("sidecar.yaml", d.limit(2))
		time.Sleep(time.Second)
		d.wants("2 at 770ms") // breath, and quiet
		for i := range 10 {   // by somebody slow
			d.write("sidecar.yaml", d.limit(3 + i)[:20+i])
			time.Sleep(200 * time.Millisecond)
		}
		d.wants()
		d.write("sidecar.yaml", d.limit(4))
		time.Sleep(time.Second)
		d.wants("4 at 3.77s")
	})
}

// Without notices the slow look finds it.
func TestChangeWithoutNotice(t *testing.T) {
	at(t, func(d *desk) {
		time.Sleep(500 * time.Millisecond)
		d.put("sidecar.yaml", d.limit(2))
		time.Sleep(4 * time.Second)
		d.wants("2 at 2.25s")
		d.put("sidecar.yaml", d.limit(3))
		time.Sleep(4 * time.Second)
		d.wants("3 at 6.52s")
	})
}

// An absent or empty file is somebody's unfinished work: told once, counted
// never, and what comes back is compared with what there was.
func TestAbsentAndEmptyFiles(t *testing.T) {
	at(t, func(d *desk) {
		first, err := os.ReadFile(d.source.path)
		if err != nil {
			d.Fatal(err)
		}
		d.remove("sidecar.yaml")
		time.Sleep(10 * time.Second)
		d.wants()
		if len(d.warned) != 1 || !strings.Contains(d.warned[0], d.source.path) {
			d.Errorf("warned %q, want one that names the file", d.warned)
		}
		if err := os.WriteFile(d.source.path, first, 0o600); err != nil {
			d.Fatal(err)
		}
		d.notices.hurry()
		time.Sleep(5 * time.Second)
		d.wants() // the same bytes
		d.write("sidecar.yaml", "")
		time.Sleep(5 * time.Second)
		d.write("sidecar.yaml", d.limit(2))
		time.Sleep(5 * time.Second)
		d.wants("2 at 20.27s")
		if len(d.warned) != 2 {
			d.Errorf("warned %q, want one more", d.warned)
		}
	})
}

// Files that are touched, or written with the bytes they hold, change nothing.
func TestEqualBytes(t *testing.T) {
	at(t, func(d *desk) {
		data, err := os.ReadFile(d.source.path)
		if err != nil {
			d.Fatal(err)
		}
		for i := range 5 {
			next := d.source.path + ".next"
			if err := os.WriteFile(next, data, 0o600); err != nil {
				d.Fatal(err)
			}
			if err := os.Rename(next, d.source.path); err != nil {
				d.Fatal(err)
			}
			if err := os.Chtimes(d.source.path, time.Unix(int64(i), 0), time.Unix(int64(i), 0)); err != nil {
				d.Fatal(err)
			}
			d.notices.hurry()
			time.Sleep(time.Second)
		}
		d.wants()
	})
}

// A broken file is told once, however long it stays and however often it is
// looked at; the next good one is read, also where it is that of before.
func TestBrokenFileIsToldOnce(t *testing.T) {
	at(t, func(d *desk) {
		good, err := os.ReadFile(d.source.path)
		if err != nil {
			d.Fatal(err)
		}
		d.write("sidecar.yaml", "dependencies: [")
		time.Sleep(10 * time.Second)
		d.wants("refused at 270ms")
		d.notices.hurry()
		time.Sleep(10 * time.Second)
		d.wants()
		if err := os.WriteFile(d.source.path, good, 0o600); err != nil {
			d.Fatal(err)
		}
		d.notices.hurry()
		time.Sleep(time.Second)
		d.wants("1 at 20.27s")
	})
}

// with is a configuration whose one dependency answers with a file.
func (d *desk) with(file string) string {
	return "dependencies: [{name: a, listen: \"127.0.0.1:7001\", upstream: \"http://a.test\", fallback: [{static: {body_file: " + file + "}}]}]\nlimits: {max_concurrent: 99}\n"
}

// The files that a configuration names are part of it.
func TestNamedFiles(t *testing.T) {
	at(t, func(d *desk) {
		d.write("sidecar.yaml", d.with("late.txt"))
		time.Sleep(time.Second)
		d.wants("refused at 520ms") // a new name must be quiet, too
		d.write("late.txt", "one")
		time.Sleep(time.Second)
		d.wants("99 a=one at 1.27s")
		d.write("late.txt", "number two")
		time.Sleep(time.Second)
		d.wants("99 a=number two at 2.27s")
		d.remove("late.txt")
		time.Sleep(time.Second)
		d.wants("refused at 3.27s")
	})
}

// What hangs together is read together: a ConfigMap's swap in the middle of a
// reading has it begin again.
func TestSwapIsReadWhole(t *testing.T) {
	at(t, func(d *desk) {
		link := func(to string) {
			next := filepath.Join(d.dir, "..next")
			if err := os.Symlink(to, next); err != nil {
				d.Fatal(err)
			}
			if err := os.Rename(next, filepath.Join(d.dir, "..data")); err != nil {
				d.Fatal(err)
			}
			d.notices.hurry()
		}
		generation := func(n int) string {
			name := fmt.Sprintf("..%d", n)
			if err := os.Mkdir(filepath.Join(d.dir, name), 0o700); err != nil {
				d.Fatal(err)
			}
			d.put(name+"/body.txt", fmt.Sprint("body ", n))
			d.put(name+"/sidecar.yaml", strings.Replace(d.with("body.txt"), "99", fmt.Sprint(100+n), 1)+strings.Repeat("#", n))
			return name
		}
		link(generation(0))
		d.remove("sidecar.yaml")
		for _, name := range []string{"sidecar.yaml", "body.txt"} {
			if err := os.Symlink("..data/"+name, filepath.Join(d.dir, name)); err != nil {
				d.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		d.wants("100 a=body 0 at 520ms")
		for n := 1; n <= 3; n++ {
			link(generation(n))
			time.Sleep(time.Second)
			d.wants(fmt.Sprintf("%d a=body %d at %s", 100+n, n, time.Duration(n)*time.Second+270*time.Millisecond))
		}
		// In the middle of a reading.
		d.ends()
		synctest.Wait()
		_, in, err := read(d.source.path, Process{})
		if err != nil {
			d.Fatal(err)
		}
		link(generation(4))
		if statesOf(in.all())[d.source.path] == in.states()[d.source.path] {
			d.Error("the swap does not show in the file's state")
		}
	})
}

// A reload that is asked for waits until the writing has ended, and refuses
// where it does not end.
func TestReloadWaitsForTheWriter(t *testing.T) {
	at(t, func(d *desk) {
		time.Sleep(time.Second)
		if _, err := d.reload(); err != nil || time.Since(d.began) != time.Second {
			d.Errorf("a file that nobody writes: %v after %s, want at once", err, time.Since(d.began)-time.Second)
		}
		go func() {
			for i := range 5 {
				d.put("sidecar.yaml", d.limit(10)[:10+i])
				time.Sleep(200 * time.Millisecond)
			}
			d.put("sidecar.yaml", d.limit(10))
		}()
		synctest.Wait()
		c, err := d.reload()
		late := time.Since(d.began) - 2*time.Second - quiet
		if err != nil || c.Limits.MaxConcurrent != 10 || late < 0 || late > 2*glance {
			d.Errorf("got %+v, %v after %s; want the whole file 250ms after its end", c, err, time.Since(d.began))
		}
		ends := make(chan struct{})
		go func() {
			for i := 0; ; i++ {
				select {
				case <-ends:
					return
				case <-time.After(100 * time.Millisecond):
					d.put("sidecar.yaml", d.limit(11))
				}
			}
		}()
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		begun := time.Now()
		if _, err := d.reload(); err == nil || !strings.Contains(err.Error(), "still being written") || time.Since(begun) != mostSettling {
			d.Errorf("a file that is always written: %v after %s", err, time.Since(begun))
		}
		close(ends)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if len(d.read) != 1 || !strings.HasPrefix(d.read[0], "11 ") {
			d.Errorf("read by itself: %q, want what was written in the end", d.read)
		}
	})
}
