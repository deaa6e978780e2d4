package stale

import (
	"net/http"
	"testing"
)

// Values of the headers that vary cannot be mistaken for others, and what says
// the same gives the same key.
func TestVariantKeys(t *testing.T) {
	key := func(h http.Header) string {
		return variantKey([]byte("secret"), "/x", []string{"A", "Accept-Language", "B", "Host"}, &http.Request{Header: h, Host: h.Get("H")})
	}
	seen := map[string]http.Header{}
	for _, h := range []http.Header{
		{}, {"A": {""}}, {"B": {""}}, {"A": {"x"}}, {"B": {"x"}}, {"A": {"x"}, "B": {"y"}}, {"A": {"xB"}, "B": {"y"}},
		{"A": {"x", "y"}}, {"A": {"xy"}}, {"A": {"X"}}, {"A": {"x ,y"}}, {"H": {"a"}}, {"H": {"b"}},
		{"Accept-Language": {"de"}}, {"Accept-Language": {"de, fr"}}, {"Accept-Language": {"fr, de"}},
	} {
		if other, ok := seen[key(h)]; ok {
			t.Errorf("%v and %v have one key", h, other)
		}
		seen[key(h)] = h
	}
	for _, same := range [][2]http.Header{
		{{"A": {"x", "y"}}, {"A": {"x,y"}}},
		{{"Accept-Language": {"de-CH, fr;q=0.5"}}, {"Accept-Language": {"DE-ch", "fr ; q=0.5"}}},
	} {
		if key(same[0]) != key(same[1]) {
			t.Errorf("%v and %v have two keys", same[0], same[1])
		}
	}
	if variantKey([]byte("other"), "/x", []string{"A"}, asked(nil)) == variantKey([]byte("secret"), "/x", []string{"A"}, asked(nil)) {
		t.Error("the key does not depend on the secret")
	}
}

// No caller gets a content coding or a language that it did not ask for,
// whatever Vary says.
func TestNegotiable(t *testing.T) {
	for _, c := range []struct {
		copied, asked string
		want          bool
	}{
		{"", "", true},
		{"", "Accept-Encoding: gzip", true},
		{"Content-Encoding: gzip", "", false},
		{"Content-Encoding: gzip", "Accept-Encoding: ", false},
		{"Content-Encoding: gzip", "Accept-Encoding: identity", false},
		{"Content-Encoding: gzip", "Accept-Encoding: br, GZIP", true},
		{"Content-Encoding: gzip", "Accept-Encoding: gzip;q=0.1", true},
		{"Content-Encoding: gzip", "Accept-Encoding: gzip; q=0", false},
		{"Content-Encoding: gzip", "Accept-Encoding: gzip;q=0.000, *", false},
		{"Content-Encoding: gzip", "Accept-Encoding: gzip;q=x", false},
		{"Content-Encoding: gzip", "Accept-Encoding: *", true},
		{"Content-Encoding: gzip", "Accept-Encoding: *;q=0", false},
		{"Content-Encoding: x-gzip", "Accept-Encoding: gzip", true},
		{"Content-Encoding: gzip", "Accept-Encoding: x-gzip", true},
		{"Content-Encoding: br, gzip", "Accept-Encoding: gzip", false},
		{"Content-Encoding: identity", "", true},
		{"Content-Language: de", "", true},
		{"Content-Language: de", "Accept-Language: fr", false},
		{"Content-Language: de", "Accept-Language: fr, DE;q=0.5", true},
		{"Content-Language: de-CH", "Accept-Language: de", true},
		{"Content-Language: de", "Accept-Language: de-CH", true},
		{"Content-Language: den", "Accept-Language: de", false},
		{"Content-Language: de, fr", "Accept-Language: fr", true},
		{"Content-Language: de", "Accept-Language: *", true},
		{"Content-Language: de", "Accept-Language: de;q=0, *", false},
		{"", "Accept-Language: fr", true},
	} {
		made := &Copy{header: fields(c.copied), asked: accepted{Encoding: "zstd", Language: "x"}}
		if got := made.negotiable(asked(fields(c.asked))); got != c.want {
			t.Errorf("%q for %q: %v", c.copied, c.asked, got)
		}
		made.asked = acceptedBy(asked(fields(c.asked)))
		if !made.negotiable(asked(fields(c.asked))) {
			t.Errorf("%q not for the one who got it for %q", c.copied, c.asked)
		}
	}
}

// A caller with credentials gets a copy that is said to be public, or keyed by
// them, and no other: neither another user's nor the one for guests.
func TestCredentials(t *testing.T) {
	ann, bob := fields("Authorization: ann"), fields("Authorization: bob")
	for _, c := range []struct {
		name           string
		g              given
		guest, own, to string
	}{
		{"a guest's", given{}, "body", "-", "-"},
		{"a guest's, public", given{header: fields("Cache-Control: public")}, "body", "body", "body"},
		{"a user's", given{req: ann}, "-", "-", "-"},
		{"a user's, public", given{req: ann, header: fields("Cache-Control: public")}, "body", "body", "body"},
		{"a user's, s-maxage", given{req: ann, header: fields("Cache-Control: s-maxage=60")}, "body", "body", "body"},
		{"a user's, keyed", given{req: ann, varyBy: []string{"Authorization"}}, "-", "body", "-"},
		{"a user's, public and keyed", given{req: ann, header: fields("Cache-Control: public"), varyBy: []string{"Authorization"}}, "-", "body", "-"},
		{"a user's, keyed by another header", given{req: ann, varyBy: []string{"Cookie"}}, "-", "-", "-"},
		{"a user's, private and keyed", given{req: ann, header: fields("Cache-Control: private"), varyBy: []string{"Authorization"}}, "-", "-", "-"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				c.g.body = "body"
				r.keep(c.g)
				for who, want := range map[string]string{"guest": c.guest, "ann": c.own, "bob": c.to} {
					header := map[string]http.Header{"guest": {}, "ann": ann, "bob": bob}[who]
					if got := r.find("/x", header, c.g.varyBy...); got != want {
						r.Errorf("%s gets %q, want %q", who, got, want)
					}
				}
			})
		})
	}
}

// A copy that was kept before an operator asked for more keys is not shown.
func TestVaryByAddedLater(t *testing.T) {
	bubble(t, func(r *rig) {
		r.keep(given{body: "body", header: fields("Vary: Accept")})
		r.want("body")
		if got := r.find("/x", nil, "X-User"); got != "-" {
			r.Errorf("found %q", got)
		}
	})
}
