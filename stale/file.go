package stale

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// The form of a file: magic, length of the description (4 bytes) and of the
// body (8 bytes), description (JSON), body, and the HMAC-SHA256 of all that
// under the directory's key.
const (
	magic      = "sidecar copy 1\n"
	prefixSize = len(magic) + 4 + 8
	// mostMeta bounds a description: net/http lets an answer have 1 MiB of
	// headers, which JSON may make larger.
	mostMeta = 8 << 20
)

// future is how far a file's time may lie ahead of the clock. Further, nobody
// can tell its age.
const future = time.Minute

var (
	errTorn    = errors.New("torn or altered")
	errFuture  = errors.New("from the future; set the clock right")
	errMoved   = errors.New("under the name of another copy")
	errForeign = errors.New("not a regular file")
)

// description is all of a copy but its body, and whose it is.
type description struct {
	Dependency   string
	Upstream     []byte // keyed hash
	Target       string
	Names        []string
	Key          []byte
	Asked        accepted
	Status       int
	Header       http.Header
	Made         time.Time // wall clock
	Lifetime     time.Duration
	OnlyFresh    bool
	StaleIfError time.Duration
}

// fileName is the name of a copy's file: what it is a copy of, then which copy.
func fileName(secret []byte, dependency, target, key string) string {
	return targetName(secret, dependency, target) + short(secret, dependency, key) + ".copy"
}

// targetName is what the names of all files of one target begin with.
func targetName(secret []byte, dependency, target string) string {
	return short(secret, dependency, target)
}

// targetOf is the beginning of a file's name that stands for its target.
func targetOf(name string) string { return name[:32] }

func short(secret []byte, dependency, what string) string {
	return hex.EncodeToString(keyed(secret, dependency, what)[:16])
}

func keyed(secret []byte, parts ...string) []byte {
	mac := hmac.New(sha256.New, secret)
	for _, part := range parts {
		mac.Write(binary.AppendUvarint(nil, uint64(len(part))))
		mac.Write([]byte(part))
	}
	return mac.Sum(nil)
}

// encode makes a copy's file.
func encode(secret []byte, s *Shelf, c *Copy) ([]byte, error) {
	meta, err := json.Marshal(description{
		Dependency: s.name, Upstream: keyed(secret, s.upstream),
		Target: c.target, Names: c.names, Key: []byte(c.key), Asked: c.asked,
		Status: c.status, Header: c.header,
		Made: c.fresh.made().Round(0).UTC(), Lifetime: c.fresh.lifetime,
		OnlyFresh: c.fresh.onlyFresh, StaleIfError: c.fresh.staleIfError,
	})
	if err != nil {
		return nil, fmt.Errorf("describe the copy: %w", err)
	}
	file := make([]byte, 0, prefixSize+len(meta)+len(c.body)+sha256.Size)
	file = append(file, magic...)
	file = binary.BigEndian.AppendUint32(file, uint32(len(meta))) //nolint:gosec // bounded by the header limit
	file = binary.BigEndian.AppendUint64(file, uint64(len(c.body)))
	file = append(append(file, meta...), c.body...)
	mac := hmac.New(sha256.New, secret)
	mac.Write(file)
	return mac.Sum(file), nil
}

// decode reads a copy's file back. The age goes on from where it was, by the
// wall clock.
func decode(secret, file []byte, now time.Time) (description, *Copy, error) {
	var d description
	if len(file) < prefixSize+sha256.Size || !bytes.HasPrefix(file, []byte(magic)) {
		return d, nil, errTorn
	}
	signed, sum := file[:len(file)-sha256.Size], file[len(file)-sha256.Size:]
	mac := hmac.New(sha256.New, secret)
	mac.Write(signed)
	if !hmac.Equal(mac.Sum(nil), sum) {
		return d, nil, errTorn
	}
	// Signed by us: the lengths are true.
	meta := int(binary.BigEndian.Uint32(file[len(magic):]))
	body := signed[prefixSize+meta:]
	if err := json.Unmarshal(signed[prefixSize:prefixSize+meta], &d); err != nil {
		return d, nil, fmt.Errorf("%w: %w", errTorn, err)
	}
	age := now.Round(0).Sub(d.Made)
	if age < -future {
		return d, nil, errFuture
	}
	return d, &Copy{
		status: d.Status, header: d.Header, body: body,
		target: d.Target, names: d.Names, key: string(d.Key), asked: d.Asked,
		fresh: freshness{
			arrived: now, initialAge: max(0, age), lifetime: d.Lifetime,
			onlyFresh: d.OnlyFresh, staleIfError: d.StaleIfError,
		},
	}, nil
}
