// SPDX-License-Identifier: Apache-2.0

package export

import (
	"compress/gzip"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ksnoop/ksnoop/internal/livetest"
	"github.com/ksnoop/ksnoop/internal/plural"
	"github.com/ksnoop/ksnoop/internal/protomsg"
)

// A collector counts what it is sent. reply answers a request, n from 1; nil: all is taken.
type collector struct {
	*httptest.Server
	mu       sync.Mutex
	requests int
	items    map[string]int // by path: those that were taken
	header   http.Header    // of the last request
	reply    func(w http.ResponseWriter, n int) (taken bool)
}

func newCollector(t *testing.T, start func(*httptest.Server)) *collector {
	t.Helper()
	c := &collector{items: map[string]int{}}
	c.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(body)
			if err != nil {
				t.Error(err)
				return
			}
			body = z
		}
		raw, err := io.ReadAll(body)
		if err != nil {
			t.Error(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.requests++
		c.header = r.Header
		if c.reply == nil || c.reply(w, c.requests) {
			c.items[r.URL.Path] += itemsIn(t, raw)
		}
	}))
	start(c.Server)
	t.Cleanup(c.Close)
	return c
}

// itemsIn counts the items of a request.
func itemsIn(t *testing.T, raw []byte) (n int) {
	each(t, raw, 1, func(resource []byte) {
		each(t, resource, 2, func(scope []byte) {
			each(t, scope, 2, func([]byte) { n++ })
		})
	})
	return n
}

func each(t *testing.T, message []byte, want protowire.Number, do func([]byte)) {
	for len(message) > 0 {
		n, kind, size := protowire.ConsumeField(message)
		if size < 0 || kind != protowire.BytesType {
			t.Errorf("%x is no message", message)
			return
		}
		if n == want {
			_, _, tag := protowire.ConsumeTag(message)
			data, _ := protowire.ConsumeBytes(message[tag:])
			do(data)
		}
		message = message[size:]
	}
}

// frame returns a frame. otlp.Frame has its form.
func frame(kind byte, resource, count int, body string) []byte {
	return append([]byte{kind, byte(resource), byte(count), byte(len(body))}, body...)
}

// open begins an export to a collector.
func open(t *testing.T, url string, o Options, env map[string]string) *Exporter {
	t.Helper()
	var err error
	if o.Config, err = Configure(url, func(name string) string { return env[name] }); err != nil {
		t.Fatal(err)
	}
	return New(o)
}

func write(t *testing.T, e *Exporter, frames ...[]byte) {
	t.Helper()
	for _, f := range frames {
		if n, err := e.Write(f); err != nil || n != len(f) {
			t.Fatal(n, err)
		}
	}
}

// TestSent: each signal goes to its path, below its resource, compressed unless that is not wanted.
func TestSent(t *testing.T) {
	for _, compression := range []string{"gzip", "none"} {
		c := newCollector(t, (*httptest.Server).Start)
		e := open(t, c.URL+"/base/", Options{Version: "1"}, map[string]string{"OTEL_EXPORTER_OTLP_COMPRESSION": compression, "OTEL_EXPORTER_OTLP_HEADERS": "api-key=a%2Cb, x=1"})
		write(t, e, append(frame(0, 0, 0, ""), frame(1, 1, 0, "")...), frame(1, 2, 0, ""), frame(2, 1, 1, "\x2a\x01a"), frame(2, 2, 1, ""), frame(2, 1, 1, ""), frame(3, 1, 1, ""), frame(4, 1, 5, ""))
		counts := e.Close()
		want := "sent 3 spans, 1 log record, 5 data points in 3 requests"
		if text := counts.String(); !strings.HasPrefix(text, want) || counts.Missing() != 0 {
			t.Errorf("%s, want %s", text, want)
		}
		if got := fmt.Sprint(c.items); got != "map[/base/v1/logs:1 /base/v1/metrics:1 /base/v1/traces:3]" {
			t.Error(got)
		}
		if h := c.header; h.Get("Api-Key") != "a,b" || h.Get("X") != "1" || h.Get("Content-Type") != "application/x-protobuf" || h.Get("User-Agent") != "ksnoop/1" || (h.Get("Content-Encoding") == "gzip") != (compression == "gzip") {
			t.Errorf("%v", h)
		}
	}
	e := open(t, "http://localhost:1", Options{}, nil)
	if counts := e.Close(); counts.String() != "sent nothing" {
		t.Errorf("%s", counts)
	}
	if _, err := e.Write([]byte("\x09")); err == nil {
		t.Error("something that is no frame was taken")
	}
}

// TestPieces: a stream may be cut anywhere.
func TestPieces(t *testing.T) {
	c := newCollector(t, (*httptest.Server).Start)
	for size := 1; size < 40; size++ {
		e := open(t, c.URL, Options{}, nil)
		stream := frame(1, 1, 0, "resource")
		for range 20 {
			stream = append(stream, frame(2, 1, 1, "\x2a\x01a")...)
		}
		for part := range slices.Chunk(stream, size) {
			write(t, e, part)
		}
		if counts := e.Close(); counts.sent[traces] != 20 {
			t.Errorf("pieces of %d: %s", size, counts)
		}
	}
	if c.items["/v1/traces"] != 39*20 {
		t.Error(c.items)
	}
}

// TestAgain: what may pass is tried again, what may not is not; each item is counted once.
func TestAgain(t *testing.T) {
	partial := func(n uint64, why string) []byte {
		inner := protomsg.AppendString(protomsg.AppendUint(nil, 1, n), 2, why)
		return protomsg.AppendString(nil, 1, inner)
	}
	status := func(code int, header, value string) func(http.ResponseWriter, int) bool {
		return func(w http.ResponseWriter, n int) bool {
			if n > 1 {
				return true
			}
			w.Header().Set(header, value)
			w.WriteHeader(code)
			fmt.Fprint(w, "no \x1b[2Jroom"+strings.Repeat("x", 1<<20))
			return false
		}
	}
	answer := func(raw []byte) func(http.ResponseWriter, int) bool {
		return func(w http.ResponseWriter, _ int) bool {
			w.Header().Set("Content-Type", "application/x-protobuf")
			_, _ = w.Write(raw)
			return true
		}
	}
	for name, c := range map[string]struct {
		reply func(http.ResponseWriter, int) bool
		want  string
		least time.Duration
	}{
		"busy":       {status(503, "Retry-After", "1"), "sent 2 spans in 1 request (0 kB, 0 kB on the wire), 1 sent again", time.Second},
		"later":      {status(429, "X", ""), "sent 2 spans in 1 request (0 kB, 0 kB on the wire), 1 sent again", 0},
		"wrong":      {status(400, "X", ""), `sent nothing; refused: 2 spans (URL: 400 Bad Request: no \x1b[2Jroomxxx`, 0},
		"moved":      {status(307, "Location", "http://192.0.2.1/"), "sent nothing; refused: 2 spans (URL: 307 Temporary Redirect", 0},
		"partial":    {answer(partial(1, "bad \x1b")), `sent 1 span in 1 request (0 kB, 0 kB on the wire); refused: 1 span (bad \x1b)`, 0},
		"too many":   {answer(partial(99, "")), "sent nothing in 1", 0},
		"negative":   {answer(partial(1<<64-1, "")), "sent 2 spans", 0},
		"no message": {answer([]byte("\xff\xff\xff")), "sent 2 spans", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			col := newCollector(t, (*httptest.Server).Start)
			col.reply = c.reply
			var said []string
			e := open(t, col.URL, Options{Wait: true, Say: func(text string) { said = append(said, text) }}, nil)
			begin := time.Now()
			write(t, e, frame(1, 1, 0, ""), frame(2, 1, 1, ""), frame(2, 1, 1, ""))
			counts := e.Close()
			text := strings.ReplaceAll(counts.String(), col.URL+"/v1/traces", "URL")
			if name == "too many" {
				c.want = "sent nothing; refused: 2 spans"
			}
			if !strings.HasPrefix(text, c.want) || len(text) > 400 || time.Since(begin) < c.least {
				t.Errorf("%s\nwant %s, after %v", text, c.want, time.Since(begin))
			}
			if again := strings.Contains(c.want, "again"); (len(said) == 1) != again || again && strings.Contains(said[0], "\x1b") {
				t.Errorf("%q", said)
			}
		})
	}
}

// TestRoom: the queue is bounded. A kernel does not wait, and what finds no room is counted; a
// recording waits.
func TestRoom(t *testing.T) {
	const n, queue = 5000, 1 << 20
	body := strings.Repeat("\x32\x01a", 40)
	for _, wait := range []bool{false, true} {
		c := newCollector(t, (*httptest.Server).Start)
		c.reply = func(http.ResponseWriter, int) bool { time.Sleep(20 * time.Millisecond); return true }
		e := open(t, c.URL, Options{Queue: queue, Wait: wait}, nil)
		write(t, e, frame(1, 1, 0, ""))
		begin := time.Now()
		most := int64(0)
		for range 10 * n {
			write(t, e, frame(2, 1, 1, body))
			e.mu.Lock()
			most = max(most, e.queued)
			e.mu.Unlock()
		}
		took := time.Since(begin)
		counts := e.Close()
		if most > queue+1024 {
			t.Errorf("%d bytes waited", most)
		}
		if got := uint64(c.items["/v1/traces"]); got != counts.sent[traces] || got+counts.dropped[traces] != 10*n || (counts.dropped[traces] == 0) != wait {
			t.Errorf("wait %v: %d came, %s", wait, got, counts)
		}
		if !wait && took > livetest.Patience(5*time.Second) {
			t.Errorf("writing took %v", took)
		}
	}
}

// TestDown: without a collector a run ends in time, and all is counted.
func TestDown(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	t.Parallel()
	c := newCollector(t, (*httptest.Server).Start)
	url := c.URL
	c.Close()
	e := open(t, url+"/?key=secret", Options{}, nil)
	write(t, e, frame(1, 1, 0, ""), frame(2, 1, 1, ""), frame(3, 1, 1, ""))
	begin := time.Now()
	counts := e.Close()
	if took := time.Since(begin); took > lastTime+livetest.Patience(5*time.Second) {
		t.Errorf("it took %v", took)
	}
	text := counts.String()
	if !strings.HasPrefix(text, "sent nothing, ") || !strings.Contains(text, "dropped for lack of room or time: 1 span, 1 log record (") || strings.Contains(text, "secret") {
		t.Error(text)
	}
}

// TestTLS: a server is verified, by the file that the environment names.
func TestTLS(t *testing.T) {
	c := newCollector(t, (*httptest.Server).StartTLS)
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	e := open(t, c.URL, Options{}, map[string]string{"OTEL_EXPORTER_OTLP_CERTIFICATE": file})
	write(t, e, frame(1, 1, 0, ""), frame(2, 1, 1, ""))
	if counts := e.Close(); counts.sent[traces] != 1 {
		t.Error(counts)
	}
	c.Config.ErrorLog = nil
	e = open(t, c.URL, Options{}, nil)
	write(t, e, frame(1, 1, 0, ""), frame(2, 1, 1, ""))
	e.cancel() // the first failure is enough
	time.Sleep(10 * time.Millisecond)
	if counts := e.Close(); counts.sent[traces] != 0 || c.requests != 1 {
		t.Error(counts, c.requests)
	}
}

// TestConfigure has what the variables mean, and that errors show no values.
func TestConfigure(t *testing.T) {
	const o = "OTEL_EXPORTER_OTLP_"
	for _, c := range []struct {
		url  string
		env  map[string]string
		want string // where traces and logs go, or the error
	}{
		{"http://h:4318", nil, "http://h:4318/v1/traces http://h:4318/v1/logs"},
		{"https://u:secret@h/a?k=secret", nil, "https://h/a/v1/traces https://h/a/v1/logs"},
		{"env", map[string]string{o + "ENDPOINT": "http://h:1", o + "TRACES_ENDPOINT": "http://t:2/x"}, "http://t:2/x http://h:1/v1/logs"},
		{"http://h:1", map[string]string{o + "TRACES_ENDPOINT": "http://t:2/x"}, "http://h:1/v1/traces http://h:1/v1/logs"},
		{"env", nil, "OTEL_EXPORTER_OTLP_ENDPOINT is not set"},
		{"h:4318", nil, "the URL needs http:// or https:// and a host, as in http://localhost:4318"},
		{"ftp://secret", nil, "the URL needs http://"},
		{"http://h:99999", nil, "the URL: there is no port 99999: they are 1 to 65535"},
		{"http://h:0", nil, "the URL: there is no port 0"},
		{"http://sec ret", nil, "the URL cannot be read"},
		{"http://h", map[string]string{o + "PROTOCOL": "grpc"}, o + "PROTOCOL: ksnoop speaks http/protobuf"},
		{"http://h", map[string]string{o + "LOGS_COMPRESSION": "secret"}, o + "LOGS_COMPRESSION: there are gzip and none"},
		{"http://h", map[string]string{o + "METRICS_DEFAULT_HISTOGRAM_AGGREGATION": "secret"}, o + "METRICS_DEFAULT_HISTOGRAM_AGGREGATION: there are explicit_bucket_histogram and base2_exponential_bucket_histogram"},
		{"http://h", map[string]string{o + "TIMEOUT": "10s"}, o + "TIMEOUT: it takes milliseconds"},
		{"http://h", map[string]string{o + "HEADERS": "a=1,secret"}, o + "HEADERS: entry 2 is not NAME=VALUE"},
		{"http://h", map[string]string{o + "HEADERS": "a b=secret"}, o + "HEADERS: a header has characters that none can have"},
		{"http://h", map[string]string{o + "HEADERS": "a=%0a"}, o + "HEADERS: a header has characters"},
		{"http://h", map[string]string{o + "CERTIFICATE": "/nowhere"}, o + "CERTIFICATE: open /nowhere"},
		{"http://h", map[string]string{o + "CLIENT_KEY": "/nowhere"}, o + "CLIENT_CERTIFICATE and " + o + "CLIENT_KEY go together"},
	} {
		config, err := Configure(c.url, func(name string) string { return c.env[name] })
		got := fmt.Sprint(err)
		if err == nil {
			got = shown(config.targets[traces].url) + " " + shown(config.targets[logs].url)
		}
		if !strings.HasPrefix(got, c.want) || strings.Contains(got, "secret") {
			t.Errorf("%s %v: %s, want %s", c.url, c.env, got, c.want)
		}
	}
	for value, want := range map[string]bool{"": false, "Explicit_Bucket_Histogram": false, "base2_exponential_bucket_histogram": true} {
		config, err := Configure("http://h", func(name string) string {
			return map[string]string{o + "METRICS_DEFAULT_HISTOGRAM_AGGREGATION": value}[name]
		})
		if err != nil || config.Exponential != want {
			t.Errorf("%q: %v", value, err)
		}
	}
	config, err := Configure("http://h", func(name string) string {
		return map[string]string{"OTEL_RESOURCE_ATTRIBUTES": "service.name=x,a=b%20c", "OTEL_SERVICE_NAME": "shop"}[name]
	})
	if got := fmt.Sprint(config.Attributes, err, config.Exposed()); got != "[{service.name shop} {a b c}] <nil> true" {
		t.Error(got)
	}
	for url, want := range map[string]bool{"http://localhost": false, "http://127.0.0.5:1": false, "http://[::1]": false, "https://h": false, "http://10.0.0.1": true} {
		if config, err = Configure(url, func(string) string { return "" }); err != nil || config.Exposed() != want {
			t.Errorf("%s: %v, %v", url, config.Exposed(), err)
		}
	}
}

// TestAfter reads both forms of Retry-After.
func TestAfter(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{"7": 7 * time.Second, "": 0, "-1": 0, "x": 0, "Tue, 24 Nov 2026 12:00:30 GMT": 30 * time.Second, "Tue, 24 Nov 2026 11:00:00 GMT": 0} {
		if got := after(text, now); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// TestInterrupt: an interrupt ends the waiting for a collector that does not answer. What was written is counted.
func TestInterrupt(t *testing.T) {
	held := make(chan struct{})
	c := newCollector(t, (*httptest.Server).Start)
	c.reply = func(http.ResponseWriter, int) bool { <-held; return false }
	t.Cleanup(func() { close(held) }) // before the server is closed
	e := open(t, c.URL, Options{Queue: 1000, Wait: true}, nil)
	done := make(chan struct{})
	var written atomic.Int64
	go func() {
		defer close(done)
		for range 100 {
			_, _ = e.Write(frame(3, 1, 1, strings.Repeat("x", 100)))
			written.Add(1)
		}
	}()
	time.Sleep(100 * time.Millisecond)
	if n, waiting := written.Load(), e.Waiting(); n == 0 || waiting != plural.Of(n, "log record{s}") {
		t.Errorf("%d were written, %q wait", n, waiting)
	}
	begin := time.Now()
	e.Interrupt()
	<-done
	counts := e.Close()
	if waiting := e.Waiting(); waiting != "" {
		t.Errorf("%s wait after the end", waiting)
	}
	if took := time.Since(begin); took > livetest.Patience(5*time.Second) || counts.dropped[logs] != 100 || counts.Missing() != 100 {
		t.Errorf("after %v: %s", took, counts)
	}
}
