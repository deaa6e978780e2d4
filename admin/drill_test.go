package admin

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sidecar/proxy"
)

const drillPath = "/api/dependencies/payments/drill"

// Orders as they may be written, and what becomes of them.
func TestDrillOrders(t *testing.T) {
	for body, want := range map[string]proxy.Drill{
		`{"latency":"8s","share":"50%","for":"30s"}`:    {Fault: proxy.FaultLatency, Latency: 8 * time.Second, Share: 0.5, For: 30 * time.Second},
		`{"for":"1h","error":503}`:                      {Fault: proxy.FaultError, Status: 503, Share: 1, For: time.Hour},
		`{"error":400,"share":"0.5%","for":"1ms"}`:      {Fault: proxy.FaultError, Status: 400, Share: 0.005, For: time.Millisecond},
		`{ "refuse" : true, "share":"100%","for":"1s"}`: {Fault: proxy.FaultRefuse, Share: 1, For: time.Second},
	} {
		f := newFake()
		w := ask(New(options(f)), request("POST", drillPath, body, "Content-Type", "application/json"))
		if w.Code != 200 {
			t.Errorf("%s: %d, %s", body, w.Code, w.Body)
			continue
		}
		if d := cmp.Diff(want, f.snapshots[0].Drill.Drill); d != "" {
			t.Errorf("%s (-want +got):\n%s", body, d)
		}
	}
}

// A drill is shown wherever its dependency is, and only while it runs.
func TestDrillIsShown(t *testing.T) {
	f := newFake()
	h := New(options(f))
	body := func(method, target, order string) string {
		w := ask(h, request(method, target, order))
		if w.Code != 200 {
			t.Errorf("%s %s: %d, %s", method, target, w.Code, w.Body)
		}
		return w.Body.String()
	}
	if got := body("GET", drillPath, ""); got != "null\n" {
		t.Errorf("without a drill: %s", got)
	}
	const shown = `{"fault":"latency 8s","share":0.25,"until":"2026-01-02T02:04:35.678901Z","injected":0}`
	if got := body("POST", drillPath, `{"latency":"8s","share":"25%","for":"30s"}`); got != shown+"\n" {
		t.Errorf("begun: %s", got)
	}
	f.snapshots[0].Drill.Injected = 7
	running := strings.Replace(shown, `"injected":0`, `"injected":7`, 1)
	if got := body("GET", drillPath, ""); got != running+"\n" {
		t.Errorf("running: %s", got)
	}
	if got := body("GET", "/api/dependencies/payments", ""); !strings.Contains(got, `"drill":`+running) {
		t.Errorf("the dependency: %s", got)
	}
	page := body("GET", "/", "")
	const line = "fire drill: latency 8s on 25 % of attempts, 7 injected, 0 s left"
	if strings.Count(page, "fire drill") != 1 || !strings.Contains(rows(t, page)[0][2], line) {
		t.Errorf("the first row is %q, want in it %q", rows(t, page)[0], line)
	}
	for range 2 {
		if got := body("DELETE", drillPath, ""); got != "null\n" {
			t.Errorf("ended: %s", got)
		}
	}
	if got := body("GET", "/api/dependencies/payments", ""); strings.Contains(got, "drill") {
		t.Errorf("the dependency after the end: %s", got)
	}
}

func TestDrillOnThePage(t *testing.T) {
	now := time.Now()
	d := drillStatus{Fault: "error 503", Share: 0.005, Until: timestamp(now.Add(29*time.Second + 1)), Injected: 12}
	if got, want := d.Line(now), "fire drill: error 503 on 0.5 % of attempts, 12 injected, 30 s left"; got != want {
		t.Errorf("line %q, want %q", got, want)
	}
}

// A bad order is not carried out, and its answer says what was expected.
func TestBadDrillOrders(t *testing.T) {
	const shape, latency, share, length = `{"latency":"8s","share":"50%","for":"30s"}`, "latency must be a duration", "share must be a percentage", "for must be a duration"
	const status, one = "error must be a status from 400 to 599", "exactly one of latency, error and refuse"
	for body, c := range map[string]struct {
		status int
		says   string
	}{
		``:                                       {400, shape},
		`null`:                                   {400, shape},
		`[]`:                                     {400, shape},
		`{"error":503,"for":"1s"`:                {400, shape},
		`{"error":503,"for":"1s"}{}`:             {400, shape},
		`{"error":503,"for":"1s"}x`:              {400, shape},
		`{"error":503,"error":503}`:              {400, shape},
		`{"error":{"status":503}}`:               {400, shape},
		`{"error":[503],"for":"1s"}`:             {400, shape},
		`{}`:                                     {422, one + " must be given, got 0"},
		`{"for":"30s"}`:                          {422, one + " must be given, got 0"},
		`{"share":"5%","for":"30s"}`:             {422, one + " must be given, got 0"},
		`{"latency":"8s"}`:                       {422, "for is missing"},
		`{"Error":503,"for":"1s"}`:               {422, `unknown member "Error"; `},
		`{"stop":true}`:                          {422, `unknown member "stop"; `},
		`{"":1}`:                                 {422, `unknown member ""; `},
		`{"error":503,"for":"0s"}`:               {422, length + ` with a unit such as "8s", above 0s and at most 1h, got 0s`},
		`{"error":503,"for":"-1s"}`:              {422, length},
		`{"error":503,"for":"61m"}`:              {422, length},
		`{"error":503,"for":"30"}`:               {422, length},
		`{"error":503,"for":30}`:                 {422, length},
		`{"error":503,"for":null}`:               {422, length},
		`{"latency":"0s","for":"1s"}`:            {422, latency},
		`{"latency":"2h","for":"1s"}`:            {422, latency},
		`{"latency":8,"for":"1s"}`:               {422, latency},
		`{"error":399,"for":"1s"}`:               {422, status + ", got 399"},
		`{"error":600,"for":"1s"}`:               {422, status},
		`{"error":503.5,"for":"1s"}`:             {422, status},
		`{"error":"503","for":"1s"}`:             {422, status},
		`{"refuse":false,"for":"1s"}`:            {422, "refuse must be true, got false"},
		`{"refuse":"true","for":"1s"}`:           {422, ""},
		`{"refuse":true,"error":503,"for":"1s"}`: {422, one + " must be given, got 2"},
		`{"refuse":true,"error":503,"latency":"1s","for":"1s"}`:         {422, one + " must be given, got 3"},
		`{"refuse":true,"share":"0%","for":"1s"}`:                       {422, share},
		`{"refuse":true,"share":"101%","for":"1s"}`:                     {422, share},
		`{"refuse":true,"share":"NaN%","for":"1s"}`:                     {422, share},
		`{"refuse":true,"share":"50","for":"1s"}`:                       {422, share},
		`{"refuse":true,"share":0.5,"for":"1s"}`:                        {422, share},
		`{"refuse":true,"for":"` + strings.Repeat("1", maxBody) + `s"}`: {413, shape},
	} {
		f := newFake()
		detail := expectProblem(t, ask(New(options(f)), request("POST", drillPath, body)), c.status)
		if !strings.Contains(detail, c.says) {
			t.Errorf("%.60s: %s, want in it %s", body, detail, c.says)
		}
		if f.snapshots[0].Drill != nil {
			t.Errorf("%.60s: a drill runs", body)
		}
	}
	w := ask(New(options(newFake())), request("POST", drillPath, `{"refuse":true,"for":"1s"}`, "Content-Type", "text/plain"))
	expectProblem(t, w, 415)
	if got := w.Header().Get("Accept-Post"); got != "application/json" {
		t.Errorf("Accept-Post is %q", got)
	}
}

// Where drills are not allowed the answer says how to allow them, and reading
// goes on.
func TestForbiddenAndUnknownDrills(t *testing.T) {
	f := newFake()
	h := New(options(f))
	for method, body := range map[string]string{"GET": "", "POST": `{"refuse":true,"for":"1s"}`, "DELETE": ""} {
		expectProblem(t, ask(h, request(method, "/api/dependencies/nobody/drill", body)), 404)
	}
	f.forbids = errors.New("drills are off; set admin.drills to true and reload")
	detail := expectProblem(t, ask(h, request("POST", drillPath, `{"refuse":true,"for":"1s"}`)), 403)
	if detail != f.forbids.Error() {
		t.Errorf("detail is %q, want the remedy", detail)
	}
	if w := ask(h, request("GET", drillPath, "")); w.Code != 200 {
		t.Errorf("reading answers %d", w.Code)
	}
}

// Whatever comes in, an order is carried out whole or not at all.
func FuzzDrillOrder(f *testing.F) {
	f.Add(`{"latency":"8s","share":"50%","for":"30s"}`)
	f.Add(`{"error":503,"for":"1h","":null}`)
	f.Fuzz(func(t *testing.T, body string) {
		members, err := readMembers(strings.NewReader(body))
		if err != nil {
			return
		}
		if !json.Valid([]byte(body)) {
			t.Fatalf("%q is not JSON", body)
		}
		d, err := newDrill(members)
		if err != nil {
			return
		}
		if d.Share <= 0 || d.Share > 1 || d.For <= 0 || d.For > time.Hour || d.Latency < 0 || d.Latency > time.Hour ||
			(d.Fault == proxy.FaultError) != (d.Status >= 400 && d.Status <= 599) || (d.Fault == proxy.FaultLatency) != (d.Latency > 0) {
			t.Errorf("%q became %+v", body, d)
		}
	})
}
