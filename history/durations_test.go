package history

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestBuckets(t *testing.T) {
	for b := range Buckets {
		if got := Bucket(middle(b)); got != b {
			t.Fatalf("the middle of bucket %d, %v, lies in bucket %d", b, middle(b), got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		var d Durations
		var exact []time.Duration
		for _, e := range rapid.SliceOfN(rapid.Float64Range(4.3, 11.1), 1, 300).Draw(t, "log10 ns") {
			v := time.Duration(math.Pow(10, e))
			exact = append(exact, v)
			d[Bucket(v)]++
		}
		slices.Sort(exact)
		for _, q := range []float64{0.01, 0.5, 0.99, 1} {
			want := exact[int(math.Ceil(q*float64(len(exact))))-1]
			if got := d.Quantile(q); (got - want).Abs() > want/16+1 {
				t.Fatalf("quantile %v of %d is %v, want %v within 1/16", q, len(exact), got, want)
			}
		}
	})
	if (&Durations{}).Quantile(0.5) != 0 {
		t.Error("nothing has a median")
	}
}

func TestErrorAnswers(t *testing.T) {
	for _, c := range []struct {
		status, grpc int
		want         string
	}{
		{200, 0, ""}, {404, 0, ""}, {429, 0, "429"}, {499, 0, ""}, {500, 0, "500"}, {505, 0, "505"}, {507, 0, "5xx"}, {599, 0, "5xx"},
		{200, 5, ""}, {200, 2, "UNKNOWN"}, {200, 4, "DEADLINE_EXCEEDED"}, {200, 8, "RESOURCE_EXHAUSTED"}, {200, 10, "ABORTED"},
		{200, 12, "UNIMPLEMENTED"}, {200, 13, "INTERNAL"}, {200, 14, "UNAVAILABLE"}, {200, 15, "DATA_LOSS"}, {200, 16, ""}, {0, 0, ""},
	} {
		got := ""
		if i, ok := ErrorAnswer(c.status, c.grpc); ok {
			got = ErrorAnswers[i]
		}
		if got != c.want {
			t.Errorf("status %d, grpc %d is %q, want %q", c.status, c.grpc, got, c.want)
		}
	}
}
