// SPDX-License-Identifier: Apache-2.0

package export

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

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ksnoop/ksnoop/internal/otlp"
	"github.com/ksnoop/ksnoop/internal/protomsg"
)

// collectorEnv names the program of an OpenTelemetry Collector with the OTLP receiver and the file exporter. The module
// fleet builds one, and runs the tests that want it.
const collectorEnv = "KSNOOP_COLLECTOR"

// startCollector starts a collector that writes log records to a file before it answers, and returns what kills it.
func startCollector(t *testing.T, address, file string) (kill func()) {
	t.Helper()
	config := filepath.Join(t.TempDir(), "config.yaml")
	text := fmt.Sprintf("receivers: {otlp: {protocols: {http: {endpoint: %q}}}}\nexporters: {file: {path: %q, rotation: {max_megabytes: 1000}}}\n"+ // with rotation it does not buffer
		"service: {telemetry: {metrics: {level: none}}, pipelines: {logs: {receivers: [otlp], exporters: [file]}}}\n", address, file)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd := exec.Command(os.Getenv(collectorEnv), "--config", config)
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() {
		_ = cmd.Process.Kill() // it may have been killed
		_ = cmd.Wait()
	}
	t.Cleanup(kill)
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		resp, err := http.Get("http://" + address)
		if err == nil {
			resp.Body.Close()
			return kill
		}
		if time.Now().After(end) {
			t.Fatalf("the collector does not answer: %v\n%s", err, &said)
		}
	}
}

// bodies adds the bodies of the log records in a file of the collector to those that have come.
func bodies(t *testing.T, file string, came map[string]int) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(raw) {
		var request struct {
			ResourceLogs []struct {
				ScopeLogs []struct {
					LogRecords []struct{ Body struct{ StringValue string } }
				}
			}
		}
		if err := json.Unmarshal(line, &request); err != nil {
			continue // the line at which it was killed
		}
		for _, r := range request.ResourceLogs {
			for _, s := range r.ScopeLogs {
				for _, l := range s.LogRecords {
					came[l.Body.StringValue]++
				}
			}
		}
	}
}

// TestCollectorKilled: a real collector is killed in the middle and started again. What fits the queue arrives, the rest
// is counted: of what was made, all was sent or dropped, and what was sent has come.
func TestCollectorKilled(t *testing.T) {
	if os.Getenv(collectorEnv) == "" {
		t.Skip(collectorEnv + " is not set: make test-fleet sets it")
	}
	for _, c := range []struct {
		name  string
		queue int64
		drops bool
	}{{"all fits", 64 << 20, false}, {"little fits", 4 << 20, true}} {
		t.Run(c.name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			address, dir := l.Addr().String(), t.TempDir()
			l.Close()
			kill := startCollector(t, address, filepath.Join(dir, "first"))
			e := open(t, "http://"+address, Options{Queue: c.queue}, nil)
			write(t, e, frame(byte(otlp.Resource), 1, 0, ""))
			made := 0
			feed := func(during time.Duration) { // 20,000 a second
				for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
					for range 100 {
						value := protomsg.AppendString(nil, 1, fmt.Sprintf("%0100d", made))
						body := protomsg.AppendString(protowire.AppendFixed64(protowire.AppendTag(nil, 1, protowire.Fixed64Type), uint64(made+1)), 5, value)
						write(t, e, frame(byte(otlp.LogRecord), 1, 1, string(body)))
						made++
					}
				}
			}
			feed(2 * time.Second)
			kill()
			feed(3 * time.Second)
			killLast := startCollector(t, address, filepath.Join(dir, "second"))
			feed(2 * time.Second)
			counts := e.Close()
			killLast()
			came := map[string]int{}
			bodies(t, filepath.Join(dir, "first"), came)
			first := len(came)
			bodies(t, filepath.Join(dir, "second"), came)
			sent, dropped := int(counts.sent[logs]), int(counts.dropped[logs])
			said := strings.TrimSpace(fmt.Sprintf("made %d, sent %d, dropped %d, came %d, %d of them to the first; %s", made, sent, dropped, len(came), first, counts.String()))
			t.Log(said)
			switch {
			case sent+dropped != made || counts.refused[logs] != 0:
				t.Errorf("not all is counted: %s", said)
			case len(came) < sent || len(came) > made:
				t.Errorf("what was sent has not come: %s", said)
			case first == 0 || counts.retries == 0 || c.drops != (dropped > 0):
				t.Errorf("the test shows nothing: %s", said)
			}
		})
	}
}
