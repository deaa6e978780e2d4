package config

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// poll is the longest time between two looks at the files. It finds what no
	// notice tells of: network filesystems, folders made anew, no notices left.
	poll = 2 * time.Second
	// breath is the shortest, whatever goes on in the folders.
	breath = 20 * time.Millisecond
)

// Watch calls changed each time that the files have changed since they were
// last read and have settled; it should call [Source.Changed]. It returns when
// ctx ends. Notices of the system only hurry the next look: what a file's state
// says is what counts, so every way of replacing a file is the same. warn is
// told, once each, what keeps changes from being seen.
func (s *Source) Watch(ctx context.Context, warn func(string), changed func()) {
	if mountedAlone(s.path) {
		warn(s.path + " is mounted by itself (a subPath, or a single file bound into a container): what replaces it outside is not seen here; mount its folder instead")
	}
	n := newNotices(warn)
	defer n.close()
	s.follow(ctx, n, warn, changed)
}

// notices wake whoever looks at files when something happens in their folders.
type notices struct {
	warn    func(string)
	wake    chan struct{}
	watcher *fsnotify.Watcher // nil: there are none
}

func newNotices(warn func(string)) *notices {
	n := &notices{warn: warn, wake: make(chan struct{}, 1)}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		n.fails(err)
		return n
	}
	n.watcher = w
	go func() {
		for range w.Events {
			n.hurry()
		}
	}()
	go func() {
		for range w.Errors {
			n.hurry() // notices were lost
		}
	}()
	return n
}

func (n *notices) hurry() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// fails tells once that there are no notices.
func (n *notices) fails(err error) {
	if n.warn != nil {
		n.warn(fmt.Sprintf("no notices of changed files (%v): they are looked at every %s instead; raise fs.inotify.max_user_instances and max_user_watches", err, poll))
		n.warn = nil
	}
}

// of asks for notices of these folders and no others. A folder that was made
// anew is another one.
func (n *notices) of(folders []string) {
	if n.watcher == nil {
		return
	}
	for _, folder := range n.watcher.WatchList() {
		if !slices.Contains(folders, folder) {
			_ = n.watcher.Remove(folder) // it may be gone already
		}
	}
	for _, folder := range folders {
		if err := n.watcher.Add(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
			n.fails(err)
		}
	}
}

func (n *notices) close() {
	if n.watcher != nil {
		_ = n.watcher.Close()
	}
}

// follow is the loop of Watch.
func (s *Source) follow(ctx context.Context, n *notices, warn func(string), changed func()) {
	for {
		n.of(s.folders())
		wait, pending := s.look()
		switch {
		case !pending:
			wait = poll
		case wait > 0:
		case s.missing():
			warn(s.path + " is missing or empty; the running configuration stays")
			s.forgo()
			wait = poll
		default:
			changed()
			wait = breath
		}
		select {
		case <-n.wake:
		case <-time.After(wait):
			continue
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(breath):
		case <-ctx.Done():
			return
		}
	}
}

// folders lists the folders in which something must happen before one of the
// files can change.
func (s *Source) folders() []string {
	s.mu.Lock()
	paths := slices.Clone(s.paths)
	s.mu.Unlock()
	var all []string
	for _, path := range paths {
		all = append(all, foldersOf(path)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// mostLinks bounds the links that are followed to a file, as the system does.
const mostLinks = 40

// foldersOf lists the folder of a file, and that of each link on the way to
// it: the ..data of a ConfigMap is such a link.
func foldersOf(path string) []string {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil
	}
	all := []string{filepath.Dir(path)}
	for range mostLinks {
		link, rest := firstLink(path)
		if link == "" {
			return append(all, filepath.Dir(path))
		}
		target, err := os.Readlink(link)
		if err != nil {
			return all
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(link), target)
		}
		all = append(all, filepath.Dir(link))
		path = filepath.Join(target, rest)
	}
	return all
}

// firstLink returns the first part of an absolute path that is a link, and what
// follows it; nothing if none is.
func firstLink(path string) (link, rest string) {
	for i := 1; i <= len(path); i++ {
		if i < len(path) && path[i] != filepath.Separator {
			continue
		}
		if info, err := os.Lstat(path[:i]); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return path[:i], strings.TrimPrefix(path[i:], string(filepath.Separator))
		}
	}
	return "", ""
}
