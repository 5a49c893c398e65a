// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// TestPacedOTLP: 50,000 calls a second for a minute are exported by one CPU, with bounded memory. The recording comes
// through a pipe at the pace at which a live run would have made it.
func TestPacedOTLP(t *testing.T) {
	if os.Getenv("KSNOOP_COLLECTOR") == "" {
		t.Skip("it takes a minute and a CPU: make test-fleet runs it")
	}
	const (
		seconds = 60
		calls   = 50_000 * seconds
		// Go's garbage comes on top of the queue, of which little is used.
		mostMemory = 256 << 20
	)
	file := manyRecords(t, "vfs_read(count, file->f_flags, return)", 2*calls)
	program := filepath.Join(t.TempDir(), "ksnoop")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var wire atomic.Int64
	sink := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body) // what is cut off was not sent, and is counted there
		wire.Add(n)
	}))
	defer sink.Close()
	recording, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd := exec.Command("taskset", "-c", "0", program, "replay", "/dev/stdin", "--otlp", sink.URL)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), "GOMAXPROCS=1"), &said, &said
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	for at := 0; at < len(recording); time.Sleep(10 * time.Millisecond) {
		due := min(int(float64(len(recording))*time.Since(begin).Seconds()/seconds), len(recording))
		if _, err := in.Write(recording[at:due]); err != nil {
			t.Fatalf("%v\n%s", err, &said)
		}
		at = due
	}
	fed := time.Since(begin)
	_ = in.Close() // the end of what was written tells
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, &said)
	}
	took, cpu := time.Since(begin), cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()
	memory := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
	t.Logf("%d calls in %v, fed in %v: %v of CPU time (%.0f %% of one), %d MB at most, %.1f bytes a call on the wire, %.1f in the recording\n%s", calls, took.Round(time.Millisecond), fed.Round(time.Millisecond), cpu.Round(time.Millisecond),
		100*cpu.Seconds()/took.Seconds(), memory/1e6, float64(wire.Load())/calls, float64(len(recording))/calls, &said)
	if !strings.Contains(said.String(), fmt.Sprintf("sent %d log records in ", calls)) || strings.Contains(said.String(), "dropped") {
		t.Errorf("not all was sent: %s", &said)
	}
	if memory > mostMemory || took > fed+5*time.Second || fed > (seconds+5)*time.Second {
		t.Errorf("%d MB, %v behind the feed of %v", memory/1e6, took-fed, fed)
	}
}
