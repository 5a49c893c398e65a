// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// programs are the collector and ksnoop.
type programs struct{ collector, ksnoop string }

// build builds both programs.
func build(t *testing.T) programs {
	t.Helper()
	dir := t.TempDir()
	p := programs{filepath.Join(dir, "collector"), filepath.Join(dir, "ksnoop")}
	for out, in := range map[string]string{p.collector: ".", p.ksnoop: ".."} {
		pkg := "."
		if in == ".." {
			pkg = "./cmd/ksnoop"
		}
		cmd := exec.Command("go", "build", "-o", out, pkg)
		cmd.Dir, cmd.Env = in, append(os.Environ(), "CGO_ENABLED=0")
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
	}
	return p
}

// signals are the names of pipelines.
var signals = [...]string{"traces", "logs", "metrics"}

// A collector is one that runs, and writes what it takes to a file.
type collector struct {
	t    *testing.T
	url  string
	out  string
	cmd  *exec.Cmd
	text bytes.Buffer
}

// address returns one that nothing listens at.
func address(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// start starts a collector, and waits until it takes requests.
func (p programs) start(t *testing.T, address, out string) *collector {
	t.Helper()
	config := filepath.Join(t.TempDir(), "config.yaml")
	exporters, pipelines := "{debug: {}", "{"
	for _, signal := range signals { // one file exporter for all fails when the collector ends: the first pipeline closes its file
		exporters += fmt.Sprintf(", file/%s: {path: %q}", signal, out+signal)
		pipelines += fmt.Sprintf("%[1]s: {receivers: [otlp], processors: [batch], exporters: [file/%[1]s, debug]}, ", signal)
	}
	text := fmt.Sprintf("receivers: {otlp: {protocols: {http: {endpoint: %q}}}}\nprocessors: {batch: {}}\nexporters: %s}\nservice: {telemetry: {metrics: {level: none}}, pipelines: %s}}\n", address, exporters, pipelines)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &collector{t: t, url: "http://" + address, out: out, cmd: exec.Command(p.collector, "--config", config)}
	c.cmd.Stdout, c.cmd.Stderr = &c.text, &c.text
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.cmd.Process.Kill() }) // it may have ended
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		resp, err := http.Get(c.url)
		if err == nil {
			resp.Body.Close()
			return c
		}
		if time.Now().After(end) {
			t.Fatalf("the collector does not answer: %v\n%s", err, &c.text)
		}
	}
}

// stop ends the collector, which writes what it has.
func (c *collector) stop() {
	c.t.Helper()
	if err := c.cmd.Process.Signal(os.Interrupt); err != nil {
		c.t.Fatal(err)
	}
	if err := c.cmd.Wait(); err != nil {
		c.t.Fatalf("%v\n%s", err, &c.text)
	}
}

// An item is a span, a log record or a data point, as the file exporter writes it.
type item map[string]any

// read returns what a collector has written: items by the member that they are in.
func read(t *testing.T, out string) map[string][]item {
	t.Helper()
	all := map[string][]item{}
	for _, signal := range signals {
		raw, err := os.ReadFile(out + signal)
		if err != nil {
			t.Fatal(err)
		}
		parse(t, raw, all)
	}
	return all
}

// parse adds the items in lines of the file exporter.
func parse(t *testing.T, raw []byte, to map[string][]item) {
	t.Helper()
	for line := range bytes.Lines(raw) {
		var v any
		if err := json.Unmarshal(line, &v); err != nil {
			t.Fatal(err)
		}
		collect(v, to)
	}
}

// collect finds items at any depth.
func collect(v any, all map[string][]item) {
	switch v := v.(type) {
	case map[string]any:
		for name, in := range v {
			list, _ := in.([]any)
			if name == "spans" || name == "logRecords" || name == "dataPoints" {
				for _, i := range list {
					all[name] = append(all[name], i.(map[string]any))
				}
			}
			collect(in, all)
		}
	case []any:
		for _, in := range v {
			collect(in, all)
		}
	}
}

// attribute returns an attribute of an item as text.
func (i item) attribute(name string) string {
	list, _ := i["attributes"].([]any)
	for _, a := range list {
		a := a.(map[string]any)
		if a["key"] == name {
			for _, v := range a["value"].(map[string]any) {
				return fmt.Sprint(v)
			}
		}
	}
	return ""
}

// export runs ksnoop replay, and returns what it says.
func (p programs) export(t *testing.T, args ...string) string {
	t.Helper()
	return p.exportAs(t, nil, args...)
}

// exportAs is export with variables in the environment.
func (p programs) exportAs(t *testing.T, env []string, args ...string) string {
	t.Helper()
	cmd := exec.Command(p.ksnoop, append([]string{"replay"}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, text)
	}
	return string(text)
}

// recording names a recording. testdata/recordings.sh says what is in them: three calls of vfs_read
// of 33 bytes, and a session of __sys_bpf that fails with EINVAL in array_map_alloc_check.
func recording(name string) string { return filepath.Join("..", "testdata", name) }

// copies makes copies of the recording of calls, of which each is a run of its own.
func copies(t *testing.T, n int) (files []string) {
	t.Helper()
	raw, err := os.ReadFile(recording("calls.ks"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for i := range n {
		file := filepath.Join(dir, fmt.Sprint(i))
		if err := os.WriteFile(file, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

// TestCollector exports recordings to a real collector.
func TestCollector(t *testing.T) {
	p := build(t)
	for name, test := range map[string]func(*testing.T, programs){"arrive": arrive, "many": many, "restart": restart, "exponential": exponential} {
		t.Run(name, func(t *testing.T) { test(t, p) })
	}
}

// arrive: sessions, calls and tables arrive complete.
func arrive(t *testing.T, p programs) {
	c := p.start(t, address(t), filepath.Join(t.TempDir(), "out"))
	p.export(t, recording("calls.ks"), "--otlp", c.url)
	p.export(t, recording("sessions.ks"), "--otlp", c.url)
	p.export(t, recording("calls.ks"), "vfs_read(count(), hist(return))", "--otlp", c.url)
	c.stop()
	all := read(t, c.out)
	if len(all["logRecords"]) != 3 || len(all["spans"]) != 2 || len(all["dataPoints"]) != 2 {
		t.Fatalf("%d log records, %d spans, %d data points\n%s", len(all["logRecords"]), len(all["spans"]), len(all["dataPoints"]), &c.text)
	}
	for _, log := range all["logRecords"] {
		if log.attribute("code.function.name") != "vfs_read" || log.attribute("ksnoop.value.return") != "33" || log["eventName"] != "ksnoop.call" {
			t.Errorf("%v", log)
		}
	}
	root, failed := all["spans"][0], all["spans"][1]
	if root["name"] != "__sys_bpf" || root["parentSpanId"] != nil || failed["name"] != "array_map_alloc_check" || failed["parentSpanId"] != root["spanId"] || failed["traceId"] != root["traceId"] {
		t.Errorf("%v\n%v", root, failed)
	}
	for _, span := range all["spans"] {
		if span.attribute("error.type") != "EINVAL" || fmt.Sprint(span["status"]) != "map[code:2 message:EINVAL]" {
			t.Errorf("%v", span)
		}
	}
	for _, point := range all["dataPoints"] {
		if point["asInt"] != "3" && (point["count"] != "3" || fmt.Sprint(point["bucketCounts"], point["explicitBounds"]) != "[0 3 0] [31 63]") {
			t.Errorf("%v", point)
		}
	}
}

// exponential: exponential histograms arrive as one: 33 is above 2^5, and not above 2^6.
func exponential(t *testing.T, p programs) {
	c := p.start(t, address(t), filepath.Join(t.TempDir(), "out"))
	p.exportAs(t, []string{"OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION=base2_exponential_bucket_histogram"}, recording("calls.ks"), "vfs_read(hist(return))", "--otlp", c.url)
	c.stop()
	points := read(t, c.out)["dataPoints"]
	if len(points) != 1 {
		t.Fatalf("%v", points)
	}
	got, err := json.Marshal(points[0]["positive"])
	if err != nil || string(got) != `{"bucketCounts":["3"],"offset":5}` || points[0]["count"] != "3" || points[0]["sum"] != nil || points[0]["startTimeUnixNano"] == nil {
		t.Errorf("%v %s %v", points, got, err)
	}
	if written, err := os.ReadFile(c.out + "metrics"); err != nil || !bytes.Contains(written, []byte(`"exponentialHistogram":{"dataPoints":[`)) || !bytes.Contains(written, []byte(`"aggregationTemporality":2`)) {
		t.Errorf("%v\n%s", err, written)
	}
	if !strings.Contains(c.text.String(), "data points") {
		t.Errorf("the debug exporter: %s", &c.text)
	}
}

// many: as many as were sent arrive, each once.
func many(t *testing.T, p programs) {
	c := p.start(t, address(t), filepath.Join(t.TempDir(), "out"))
	const n = 300
	said := p.export(t, append(copies(t, n), "--otlp", c.url)...)
	c.stop()
	if got := len(read(t, c.out)["logRecords"]); got != 3*n || !strings.Contains(said, fmt.Sprintf("sent %d log records", 3*n)) {
		t.Errorf("%d of %d log records: %s", got, 3*n, said)
	}
}

// restart: while there is no collector, what is to be sent waits. It arrives when there is one
// again.
func restart(t *testing.T, p programs) {
	at, dir := address(t), t.TempDir()
	first := p.start(t, at, filepath.Join(dir, "first"))
	p.export(t, append(copies(t, 10), "--otlp", first.url)...)
	first.stop()
	done := make(chan string)
	files := copies(t, 200)
	go func() { done <- p.export(t, append(files, "--otlp", first.url)...) }()
	time.Sleep(5 * time.Second)
	second := p.start(t, at, filepath.Join(dir, "second"))
	text := <-done
	second.stop()
	if a, b := len(read(t, first.out)["logRecords"]), len(read(t, second.out)["logRecords"]); a != 30 || b != 600 || !strings.Contains(text, "sent again") {
		t.Errorf("%d and %d log records: %s", a, b, text)
	}
}
