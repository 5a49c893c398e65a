// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// parentScript traces the server in a guest, into a collector there. What both have written comes through the standard output.
const parentScript = `ksnoop --version >&2 || exit 1
cat >/tmp/config.yaml <<X
receivers: {otlp: {protocols: {http: {endpoint: "127.0.0.1:4318"}}}}
exporters: {file/traces: {path: /tmp/traces}, debug: {}}
service: {telemetry: {metrics: {level: none}}, pipelines: {traces: {receivers: [otlp], exporters: [file/traces]}, metrics: {receivers: [otlp], exporters: [debug]}}}
X
/collector --config /tmp/config.yaml >/tmp/collector 2>&1 &
collector=$!
until grep -q ready /tmp/collector; do sleep 0.2; done
ksnoop -v $2 -s none --otlp http://127.0.0.1:4318 --parent go -n server -x ENOENT -e 'do_sys_openat2(ustr(filename))' 2>/tmp/said &
traced=$!
until grep -q Receiving /tmp/said; do sleep 0.2; done
/server -requests "$1" -connections 64 -wait 2s -out /tmp/spans >&2 || exit 1
kill -INT $traced
wait $traced || { cat /tmp/said >&2; exit 1; }
kill -INT $collector
wait $collector
tar cz -C /tmp said spans traces
`

// armScript does so without a collector, which is not built for that architecture: a recording has what was found.
const armScript = `ksnoop --version >&2 || exit 1
ksnoop -v $2 -s none --otlp http://127.0.0.1:1 --record /tmp/recording --parent go -n server -x ENOENT -e 'do_sys_openat2(ustr(filename))' 2>/tmp/said &
traced=$!
until grep -q Receiving /tmp/said; do sleep 0.2; done
/server -requests "$1" -connections 64 -wait 15s -out /tmp/spans >&2 || exit 1 # an emulated processor takes its time for debug info
kill -INT $traced
wait $traced # which has sent nothing
tar cz -C /tmp said spans recording
`

// TestParent: a Go server with the stock SDK fails to open a file in each of 10,000 requests. Each session is a child of
// the very span in which the server was, as the server itself exports it.
func TestParent(t *testing.T) {
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		t.Skip("there is no QEMU: ", err)
	}
	const requests = 10_000
	p := build(t)
	// A preemptive kernel skips trampolines' programs while a task is preempted inside one.
	for kernel, c := range map[string]struct {
		arch, method, script string
		lacking              int // sessions at most that lack their span or the name of their file, since memory could not be read
	}{
		"6.12": {"amd64", "--attach=auto", parentScript, 0}, "newest": {"amd64", "--attach=session", parentScript, 0}, "newest-arm64": {"arm64", "--attach=session", armScript, 10},
	} {
		t.Run(kernel, func(t *testing.T) {
			dir := t.TempDir()
			server, script := filepath.Join(dir, "server"), filepath.Join(dir, "parent.sh")
			compile := exec.Command("go", "build", "-o", server, "./server")
			compile.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+c.arch)
			if out, err := compile.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if err := os.WriteFile(script, []byte(c.script), 0o600); err != nil {
				t.Fatal(err)
			}
			var errs bytes.Buffer
			guest := exec.Command("go", "run", "./internal/vm/guestrun", "-kernel", kernel, "-cpus", "2", "-timeout", "10m",
				"-file", p.collector+":/collector", "-file", server+":/server", "-file", script+":/parent.sh", "sh", "/parent.sh", fmt.Sprint(requests), c.method)
			guest.Dir, guest.Stderr = "..", &errs
			out, err := guest.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, &errs)
			}
			files := unpacked(t, out)
			if recording := files["recording"]; recording != nil {
				files["traces"] = p.traces(t, recording)
			}
			checkParents(t, files, requests, c.lacking)
		})
	}
}

// traces returns what a collector takes of a recording.
func (p programs) traces(t *testing.T, recording []byte) []byte {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "recording")
	if err := os.WriteFile(file, recording, 0o600); err != nil {
		t.Fatal(err)
	}
	c := p.start(t, address(t), filepath.Join(dir, "out"))
	p.export(t, file, "--otlp", c.url)
	c.stop()
	raw, err := os.ReadFile(c.out + "traces")
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// unpacked returns the files of an archive.
func unpacked(t *testing.T, raw []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

// checkParents compares what ksnoop has exported with the server's own spans.
func checkParents(t *testing.T, files map[string][]byte, requests, mostLacking int) {
	t.Helper()
	t.Logf("%s", files["said"])
	type ids struct{ trace, span string }
	of := map[string]ids{} // by the number of the request: the span in which it opens its file
	all := map[ids]bool{}
	for line := range strings.Lines(string(files["spans"])) {
		var s ids
		var name, n string
		if _, err := fmt.Sscan(line, &s.trace, &s.span, &name, &n); err != nil && name != "prepare" {
			t.Fatalf("%q: %v", line, err)
		}
		all[s] = true
		even := n != "" && strings.Contains("02468", n[len(n)-1:])
		if name == "look" || name != "prepare" && even {
			of[n] = s
		}
	}
	if len(of) != requests {
		t.Fatalf("the server has spans of %d requests", len(of))
	}
	path := regexp.MustCompile(`/absent/(\d+)`)
	seen := map[string]int{}
	orphans, roots, lacking, nameless := 0, 0, 0, 0
	exported := map[string][]item{}
	parse(t, files["traces"], exported)
	for _, s := range exported["spans"] {
		parent, _ := s["parentSpanId"].(string)
		at := ids{s["traceId"].(string), parent}
		m := path.FindStringSubmatch(fmt.Sprint(s["attributes"]))
		switch {
		case parent == "" && m == nil:
			roots++ // what the server opens before the first request
		case parent == "":
			lacking++
		case !all[at]:
			orphans++
		case m == nil:
			nameless++ // the name of the file could not be read
		case at != of[m[1]]:
			t.Errorf("%v is in %v; the server was in another span", m, at)
		default:
			seen[m[1]]++
		}
	}
	t.Logf("%d sessions in the span that the server was in, %d orphans, %d without the name of their file, %d roots of requests, %d roots that are of no request", len(seen), orphans, nameless, lacking, roots)
	if len(seen)+nameless+lacking != requests || nameless+lacking > mostLacking || orphans > 0 {
		t.Errorf("%d of %d requests have a session in their span, %d have one in none, %d sessions are orphans", len(seen), requests, lacking, orphans)
	}
	for n, times := range seen {
		if times != 1 {
			t.Errorf("request %s has %d sessions", n, times)
		}
	}
	said := string(files["said"])
	want := fmt.Sprintf("--parent: %d in spans of their programs", requests-lacking)
	if n := lacking + roots; n > 0 {
		want += fmt.Sprintf(", %d in none", n)
	}
	if !strings.Contains(said, want) {
		t.Errorf("ksnoop says %s, want %s", said, want)
	}
}
