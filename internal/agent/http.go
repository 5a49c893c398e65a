// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/json"
	"log"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/net/netutil"

	"github.com/ksnoop/ksnoop/internal/prometheus"
)

// Reloads count how often the configuration was read again.
type Reloads struct{ Done, Refused atomic.Uint64 }

// Handler answers /healthz and /metrics.
func Handler(s *Supervisor, version string, reloads *Reloads) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(health{"ok", s.Status()}) // nobody is there to be told
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write(appendMetrics(nil, s.Status(), version, reloads))
	})
	return mux
}

// health is what /healthz answers: the agent works, whatever its requests do. Whoever restarts an agent that is not healthy
// would stop the requests that work because one does not.
type health struct {
	Status   string   `json:"status"`
	Requests []Status `json:"requests"`
}

// Server returns what answers. Its limits are for something that is asked by few. What goes wrong is said to errors: without one
// it would be said to the standard error, which may block.
func Server(h http.Handler, errors *log.Logger) *http.Server {
	return &http.Server{Handler: h, ErrorLog: errors, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10}
}

// MostConnections is how many connections are answered at a time. Others wait: anybody who reaches the address may open as many as they
// like, which must not cost the agent its descriptors. They can keep others from an answer, not from being traced.
const MostConnections = 1024

// Listen returns a listener that takes so many connections at a time.
func Listen(l net.Listener, most int) net.Listener { return netutil.LimitListener(l, most) }

func appendMetrics(dst []byte, all []Status, version string, reloads *Reloads) []byte {
	value := func(name string, n uint64, labels ...string) {
		dst = append(append(dst, name...), '{')
		for i := 0; i < len(labels); i += 2 {
			dst = prometheus.AppendLabel(dst, labels[i], []byte(labels[i+1]))
		}
		dst = append(strconv.AppendUint(append(dst, "} "...), n, 10), '\n')
	}
	dst = prometheus.AppendHead(dst, "ksnoop_agent_info", "gauge", "The agent that answers.")
	value("ksnoop_agent_info", 1, "version", version)
	dst = prometheus.AppendHead(dst, "ksnoop_agent_reloads_total", "counter", "How often the configuration was read again: done, or refused because of what is wrong in it.")
	value("ksnoop_agent_reloads_total", reloads.Done.Load(), "result", "done")
	value("ksnoop_agent_reloads_total", reloads.Refused.Load(), "result", "refused")
	dst = prometheus.AppendHead(dst, "ksnoop_request_state", "gauge", "1 for the state that a request is in.")
	for _, s := range all {
		for _, state := range states {
			n := uint64(0)
			if s.State == state {
				n = 1
			}
			value("ksnoop_request_state", n, "request", s.Name, "state", string(state))
		}
	}
	for _, family := range [...]struct {
		name, help string
		of         func(*Status) uint64
	}{
		{"ksnoop_request_records_total", "Records that the kernel has sent for a request. A call has one or two, a session several.", func(s *Status) uint64 { return s.Records }},
		{"ksnoop_request_failures_total", "How often a request has failed.", func(s *Status) uint64 { return s.Failures }},
		{"ksnoop_request_restarts_total", "How often a request was begun again after it had failed.", func(s *Status) uint64 { return s.Restarts }},
	} {
		dst = prometheus.AppendHead(dst, family.name, "counter", family.help)
		for i := range all {
			value(family.name, family.of(&all[i]), "request", all[i].Name)
		}
	}
	dst = prometheus.AppendHead(dst, "ksnoop_request_lost_total", "counter", "What is missing of a request, by cause.")
	for _, s := range all {
		for _, cause := range slices.Sorted(maps.Keys(s.Lost)) {
			value("ksnoop_request_lost_total", s.Lost[cause], "request", s.Name, "cause", cause)
		}
	}
	return dst
}
