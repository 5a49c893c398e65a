// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/livetest"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
	"github.com/ksnoop/ksnoop/layout"
)

// A blockedRead is a process that reads so many bytes of a pipe, once.
type blockedRead struct {
	cmd *exec.Cmd
	in  io.WriteCloser
}

const blockedSize = 4711

// startRead returns when the process waits for the pipe.
func startRead(t *testing.T) blockedRead {
	t.Helper()
	r := blockedRead{cmd: exec.Command("dd", fmt.Sprintf("bs=%d", blockedSize), "count=1")}
	var err error
	if r.in, err = r.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(livetest.Patience(30 * time.Second)); time.Now().Before(end); time.Sleep(time.Millisecond) {
		// What the process sleeps in; its children would be elsewhere.
		if where, _ := os.ReadFile(fmt.Sprintf("/proc/%d/wchan", r.cmd.Process.Pid)); bytes.Contains(where, []byte("pipe_read")) {
			return r
		}
	}
	t.Fatal("dd does not read")
	return r
}

// end lets the read return and waits for the end of the process.
func (r blockedRead) end(t *testing.T) {
	t.Helper()
	if err := r.in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}

// TestLivePaused: a call that was begun before a pause is followed to its end in it, and one that
// begins in the pause is never seen, although it returns after it.
func TestLivePaused(t *testing.T) {
	guest.Require(t)
	for _, c := range []struct {
		method layout.Method
		needs  Capability
	}{
		{layout.MethodFentry, CapFexit},
		{layout.MethodKprobeMulti, CapKprobeMulti},
		{layout.MethodKprobeSession, CapKprobeSession},
		{layout.MethodFsession, CapFsession},
		{layout.MethodTracingMulti, CapTracingMulti},
	} {
		if err := c.needs.Probe(); err != nil {
			t.Logf("not %s: %v", c.method, err)
			continue
		}
		t.Run(c.method.String(), func(t *testing.T) { testPaused(t, c.method) })
	}
}

func testPaused(t *testing.T, m layout.Method) {
	tracer := attached(t, fmt.Sprintf("vfs_read(count == %d, file->f_flags, return == 0)", blockedSize), m)
	defer tracer.Close()
	turn := func(to bpf.Switch) {
		t.Helper()
		if err := tracer.turn(to); err != nil {
			t.Fatal(err)
		}
	}
	turn(bpf.On)
	before := startRead(t)
	turn(bpf.Paused)
	during := startRead(t)
	before.end(t)
	turn(bpf.On)
	during.end(t)
	after := startRead(t)
	after.end(t)
	turn(bpf.Off)
	off := startRead(t)
	off.end(t)

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var got []uint32
	for raw, err := range tracer.Records(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		var e bpf.Event
		if _, err := bpf.DecodeEvent(raw, &e); err != nil {
			t.Fatal(err)
		}
		if e.Kind != bpf.KindCall {
			t.Errorf("a record of kind %d", e.Kind)
		}
		got = append(got, e.PID)
	}
	want := []uint32{uint32(before.cmd.Process.Pid), uint32(after.cmd.Process.Pid)}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("calls of processes %d, want those of %d; %d began in the pause", got, want, during.cmd.Process.Pid)
	}
}

// attached attaches a SPEC by a method, switched off.
func attached(t *testing.T, text string, m layout.Method) *Tracer {
	t.Helper()
	p, o := resolved(t, text, m)
	o.Latency = time.Millisecond
	tracer, err := Attach(p, o)
	if err != nil {
		t.Fatal(err)
	}
	return tracer
}
