// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestOTLP: a recording is exported, each signal to its path, and a line says so.
func TestOTLP(t *testing.T) {
	var mu sync.Mutex
	var paths []string
	status := http.StatusOK
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		paths = append(paths, r.URL.Path)
		w.WriteHeader(status)
	}))
	defer sink.Close()
	const calls, sessions = "../../testdata/calls.ks", "../../testdata/sessions.ks"
	for args, want := range map[string]string{
		calls:                              "sent 3 log records in 1 request|/v1/logs",
		calls + " --otlp-as spans -c 2":    "sent 2 spans in 1 request|/v1/traces",
		sessions:                           "sent 2 spans in 1 request|/v1/traces",
		calls + " " + sessions:             "sent 2 spans, 3 log records in 2 requests|/v1/logs|/v1/traces",
		calls + " vfs_read(count())":       "sent 1 data point in 1 request|/v1/metrics",
		calls + " --summary":               "sent 1 data point in 1 request|/v1/metrics",
		calls + " vfs_read(return==12345)": "sent nothing",
	} {
		paths = nil
		stdout, stderr, status := ran(append([]string{"replay", "--otlp", sink.URL}, strings.Fields(args)...)...)
		slices.Sort(paths)
		line, wanted, _ := strings.Cut(want, "|")
		if status != 0 || stdout != "" || !strings.Contains(stderr, "ksnoop: --otlp "+sink.URL+": "+line) || strings.Join(paths, "|") != wanted {
			t.Errorf("%s: status %d, %s, %v, %s", args, status, stdout, paths, stderr)
		}
	}
	status = http.StatusForbidden
	if _, stderr, status := ran("replay", "--otlp", sink.URL+"/x?key=secret", calls); status != 1 || strings.Contains(stderr, "secret") ||
		!strings.Contains(stderr, "sent nothing; refused: 3 log records ("+sink.URL+"/x/v1/logs: 403 Forbidden)\n") || !strings.Contains(stderr, "--otlp: 3 spans, log records or data points did not arrive") {
		t.Errorf("refused: status %d, %s", status, stderr)
	}
}

// TestOTLPUsage: what does not go with an export is refused before anything is sent.
func TestOTLPUsage(t *testing.T) {
	for args, want := range map[string]string{
		"--otlp localhost:4318":             "--otlp: the URL needs http:// or https:// and a host",
		"--otlp http://h:4318/v1/traces":    "--otlp: the URL ends in /v1/traces, which ksnoop adds itself: leave it out",
		"--otlp http://u:secret@h:x":        "--otlp: the URL cannot be read",
		"--otlp http://h --format json":     "--format does not go with --otlp",
		"--otlp http://h -o x":              "-o does not go with --otlp",
		"--otlp http://h --compact":         "--compact does not go with --otlp: it is about how text looks",
		"--otlp http://h --otlp-as metrics": "--otlp-as metrics: there are logs and spans",
		"--otlp http://h --otlp-queue 1":    "--otlp-queue 1: a size from 1M to 16G",
		"--otlp-as spans":                   "--otlp-as, --otlp-queue and --parent go with --otlp URL",
		"--parent count":                    "--otlp-as, --otlp-queue and --parent go with --otlp URL",
		"--otlp http://h --parent count":    "--parent: count is a number: a trace context is a text, as ustr(p), or 24 bytes",
		"--otlp http://h --parent ustr(a)":  "--parent: ustr(a) is not among the values that were captured",
		"--otlp http://h --parent a,b":      "--parent a,b: it takes one value, as ustr(p)",
		"--otlp http://h --parent a)":       "--parent a): it takes one value, as ustr(p)",
		"--otlp http://h --parent ustr(a":   "--parent:\n  ustr(a\n        ^\n  column 7: unexpected end of the SPEC",
		"--otlp env":                        "OTEL_EXPORTER_OTLP_ENDPOINT is not set",
	} {
		if _, stderr, status := ran(append([]string{"replay", "../../testdata/calls.ks"}, strings.Fields(args)...)...); status != exitUsage || !strings.Contains(stderr, want) || strings.Contains(stderr, "secret") {
			t.Errorf("%s: status %d, %s", args, status, stderr)
		}
	}
	for args, want := range map[string]string{
		"--otlp http://h --dry-run vfs_read":          "--format, -o and --otlp are about calls and sessions",
		"--otlp http://h --record x --print vfs_read": "--print does not go with --otlp",
	} {
		if _, stderr, status := ran(append([]string{"trace"}, strings.Fields(args)...)...); status != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %s", args, status, stderr)
		}
	}
}
