// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/json"
	"errors"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// TestMetrics: Prometheus's own parser reads what is known of each request.
func TestMetrics(t *testing.T) {
	s := newStage(t, times{first: time.Hour})
	s.Apply(requests("a=1"))
	p := s.next()
	p.reports <- Report{Attached: true, Records: 7, Lost: map[string]uint64{`say "x"\`: 3}}
	p.end(errors.New("gone"))
	s.until(Failed)
	var reloads Reloads
	reloads.Refused.Add(2)
	r := httptest.NewRecorder()
	Handler(s.Supervisor, "v1", &reloads).ServeHTTP(r, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for name, f := range families {
		for _, m := range f.Metric {
			key := name
			for _, l := range m.Label {
				key += " " + l.GetName() + "=" + l.GetValue()
			}
			got[key] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	if diff := cmp.Diff(map[string]float64{
		"ksnoop_agent_info version=v1":                       1,
		"ksnoop_agent_reloads_total result=done":             0,
		"ksnoop_agent_reloads_total result=refused":          2,
		"ksnoop_request_state request=a state=starting":      0,
		"ksnoop_request_state request=a state=running":       0,
		"ksnoop_request_state request=a state=failed":        1,
		"ksnoop_request_state request=a state=ended":         0,
		"ksnoop_request_records_total request=a":             7,
		"ksnoop_request_failures_total request=a":            1,
		"ksnoop_request_restarts_total request=a":            0,
		`ksnoop_request_lost_total request=a cause=say "x"\`: 3,
	}, got); diff != "" {
		t.Error(diff)
	}
}

// TestHealth: the agent is well, even if a request is not, of which it tells.
func TestHealth(t *testing.T) {
	s := newStage(t, times{first: time.Hour})
	s.refuse = errors.New("no such function")
	s.Apply(requests("a=1"))
	s.until(Failed)
	h := Handler(s.Supervisor, "v1", new(Reloads))
	r := httptest.NewRecorder()
	h.ServeHTTP(r, httptest.NewRequest(http.MethodGet, "/healthz", nil))
	var got health
	if err := json.Unmarshal(r.Body.Bytes(), &got); err != nil || r.Code != http.StatusOK {
		t.Fatalf("%d %s %v", r.Code, r.Body, err)
	}
	if diff := cmp.Diff(health{"ok", []Status{{Name: "a", State: Failed, Failures: 1, Reason: "no such function"}}}, got); diff != "" {
		t.Error(diff)
	}
	for request, want := range map[string]int{"POST /healthz": http.StatusMethodNotAllowed, "GET /": http.StatusNotFound} {
		var method, path string
		for i, c := range request {
			if c == ' ' {
				method, path = request[:i], request[i+1:]
			}
		}
		r := httptest.NewRecorder()
		h.ServeHTTP(r, httptest.NewRequest(method, path, nil))
		if r.Code != want {
			t.Errorf("%s: %d, want %d", request, r.Code, want)
		}
	}
}

// TestServerErrors: what goes wrong in a server is said where it is told to, and not to a standard error that may block.
func TestServerErrors(t *testing.T) {
	var said strings.Builder
	s := httptest.NewUnstartedServer(nil)
	s.Config = Server(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("no answer") }), log.New(&said, "ksnoop: ", 0))
	s.Start()
	if r, err := http.Get(s.URL); err == nil {
		r.Body.Close()
		t.Error("a handler that panics has answered:", r.Status)
	}
	s.Close()
	if !strings.HasPrefix(said.String(), "ksnoop: http: panic serving ") {
		t.Errorf("%q", said.String())
	}
}

// TestListen: no more connections are taken than are answered at a time.
func TestListen(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	const most = 8
	l := Listen(inner, most)
	var taken atomic.Int64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			taken.Add(1)
			defer c.Close()
		}
	}()
	for range most + 20 {
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	for taken.Load() < most {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(50 * time.Millisecond)
	if n := taken.Load(); n != most {
		t.Errorf("%d connections", n)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	<-ended
}
