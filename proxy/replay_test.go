package proxy

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// A body up to max_body_bytes is sent again, one byte more is not.
func TestReplayLimit(t *testing.T) {
	fits, over := strings.Repeat("x", 50), strings.Repeat("x", 51)
	for _, c := range []struct {
		name   string
		body   string
		length int64
		tries  int
		denied Denial
	}{
		{"fits", fits, 0, 2, ""},
		{"too large", over, 0, 1, DeniedBody},
		{"chunked, fits", fits, -1, 2, ""},
		{"chunked, too large", over, -1, 1, DeniedBody},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, retries(1), func(r *rig) {
				r.up.will(reply{status: 503}, reply{})
				r.call(caller{method: "PUT", body: []step{{text: c.body[:30]}, {after: ms(10), text: c.body[30:]}}, length: c.length})
				if h := r.lastCall(); h.Attempts != c.tries || h.Denied != c.denied {
					r.Errorf("%d attempts, denied %q; want %d, %q", h.Attempts, h.Denied, c.tries, c.denied)
				}
				for n := range c.tries {
					if q := r.up.request(n); q.body != c.body || (c.length == 0) != (q.length == int64(len(c.body))) {
						r.Errorf("attempt %d sent %q, Content-Length %d", n, q.body, q.length)
					}
				}
			})
		})
	}
}

// An early refusal can be retried while the upload goes on.
func TestReplayDuringUpload(t *testing.T) {
	bubble(t, retries(1), func(r *rig) {
		busy := after503("1")
		busy.early = true
		r.up.will(busy, reply{body: text("it")})
		r.call(caller{method: "PUT", length: -1, body: []step{{text: "one "}, {after: ms(500), text: "two "}, {after: ms(1000), text: "three"}}}).
			want(t, 200, "it", ms(1500))
		if q := r.up.request(1); q.body != "one two three" {
			r.Errorf("the second attempt sent %q", q.body)
		}
	})
}

// An upload that outgrows max_body_bytes while the call waits to retry cannot
// be sent again.
func TestReplayOutgrownInBackoff(t *testing.T) {
	bubble(t, retries(1), func(r *rig) {
		busy := after503("1")
		busy.early = true
		r.up.will(busy)
		r.call(caller{method: "PUT", length: -1, body: []step{{text: "one"}, {after: ms(500), text: strings.Repeat("x", 100)}}}).
			want(t, 503, "busy", time.Second)
		if h := r.lastCall(); h.Attempts != 1 || h.Denied != DeniedBody {
			r.Errorf("%d attempts, denied %q; want 1, body", h.Attempts, h.Denied)
		}
	})
}

// chunked is a source that gives the pieces it is told and calls back in the
// middle of each read.
type chunked struct {
	rest   []byte
	size   func() int
	within func()
	err    error
}

func (c *chunked) Read(p []byte) (int, error) {
	if c.within != nil {
		c.within()
	}
	if len(c.rest) == 0 {
		return 0, c.err
	}
	n := copy(p, c.rest[:min(len(c.rest), c.size())])
	if c.rest = c.rest[n:]; len(c.rest) == 0 && c.size()%2 == 0 {
		return n, c.err // the end may come with the last bytes
	}
	return n, nil
}

// Whatever the pieces, and whenever attempts are given up, each one reads the
// caller's body from its beginning.
func TestReplayModel(t *testing.T) {
	errBroken := errors.New("broken")
	rapid.Check(t, func(t *rapid.T) {
		body := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "body")
		limit := rapid.Int64Range(0, 250).Draw(t, "limit")
		end := rapid.SampledFrom([]error{io.EOF, errBroken}).Draw(t, "end")
		src := &chunked{rest: body, err: end, size: func() int { return rapid.IntRange(1, 60).Draw(t, "piece") }}
		r := newReplay(src, limit)
		for try := 0; ; try++ {
			sent := 0
			a := r.reader(func() { sent++ })
			src.within = func() {
				if rapid.IntRange(0, 9).Draw(t, "given up inside") == 0 && r.again() {
					_ = a.Close()
				}
			}
			var got []byte
			var err error
			for reads := rapid.IntRange(0, 20).Draw(t, "reads"); err == nil && reads > 0; reads-- {
				p := make([]byte, rapid.IntRange(1, 60).Draw(t, "buffer"))
				var n int
				if n, err = a.Read(p); n == 0 && err == nil {
					t.Fatal("a read of nothing")
				}
				got = append(got, p[:n]...)
			}
			if !bytes.HasPrefix(body, got) {
				t.Fatalf("attempt %d read %q of %q", try, got, body)
			}
			if err != nil && !errors.Is(err, errAttemptOver) && (!errors.Is(err, end) || len(got) != len(body)) {
				t.Fatalf("attempt %d ended with %v after %d of %d bytes", try, err, len(got), len(body))
			}
			if errors.Is(err, io.EOF) {
				if n, again := a.Read(make([]byte, 1)); n != 0 || !errors.Is(again, io.EOF) {
					t.Fatalf("after the end: %d, %v", n, again)
				}
			}
			if whole := errors.Is(err, io.EOF); whole != (sent == 1) {
				t.Fatalf("attempt %d was told %d times that its body is sent, read to the end: %v", try, sent, whole)
			}
			if !r.again() {
				if r.read <= limit {
					t.Fatalf("lost after %d bytes, %d are to be kept", r.read, limit)
				}
				return
			}
			if try == 5 {
				return
			}
			r.rewind()
			if n, err := a.Read(make([]byte, 1)); n != 0 || err == nil {
				t.Fatalf("an attempt that is over read %d, %v", n, err)
			}
		}
	})
}

// What an attempt reads that is over by then is the next one's.
func TestReplayOfAnAbandonedRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		caller, upload := io.Pipe()
		r := newReplay(caller, 0)
		first := r.reader(nil)
		var wait sync.WaitGroup
		wait.Go(func() {
			if n, err := first.Read(make([]byte, 10)); n != 0 || !errors.Is(err, errAttemptOver) {
				t.Errorf("first read %d, %v; want its end", n, err)
			}
		})
		synctest.Wait()
		if !r.rewind() {
			t.Fatal("nothing was read, and yet it is lost")
		}
		second := r.reader(nil)
		wait.Go(func() {
			if got, err := io.ReadAll(second); string(got) != "hello" || err != nil {
				t.Errorf("second read %q, %v; want hello", got, err)
			}
		})
		synctest.Wait()
		_, _ = io.WriteString(upload, "hel")
		_, _ = io.WriteString(upload, "lo")
		_ = upload.Close()
		wait.Wait()
	})
}

// Attempts that overlap do not race; the last one has it all.
func TestReplayConcurrent(t *testing.T) {
	body := bytes.Repeat([]byte("0123456789"), 1000)
	r := newReplay(iotest.OneByteReader(bytes.NewReader(body)), int64(len(body)))
	var wait sync.WaitGroup
	for range 50 {
		a := r.reader(nil)
		wait.Go(func() {
			got := make([]byte, 200)
			n, err := io.ReadFull(a, got)
			if !bytes.HasPrefix(body, got[:n]) || (err != nil && !errors.Is(err, errAttemptOver)) {
				t.Errorf("read %d bytes, %v", n, err)
			}
		})
		r.rewind()
	}
	last := r.reader(nil)
	if got, err := io.ReadAll(last); !bytes.Equal(got, body) || err != nil {
		t.Errorf("the last attempt read %d of %d bytes, %v", len(got), len(body), err)
	}
	wait.Wait()
}

// An error of the caller's is every attempt's.
func TestReplayOfAnError(t *testing.T) {
	errBroken := errors.New("broken")
	r := newReplay(io.MultiReader(strings.NewReader("half"), iotest.ErrReader(errBroken)), 100)
	for range 2 {
		if got, err := io.ReadAll(r.reader(func() { t.Error("told that the body is sent") })); string(got) != "half" || !errors.Is(err, errBroken) {
			t.Errorf("read %q, %v; want half, broken", got, err)
		}
	}
}

// Without a body there is nothing that could be lost.
func TestReplayOfNothing(t *testing.T) {
	var r *replay
	if !r.again() || !r.rewind() {
		t.Error("a request without a body cannot be sent again")
	}
}
