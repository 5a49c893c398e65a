// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// TestLiveFlood: whatever the buffer holds, calls printed and calls lost are
// those that were made, and marks in the output say where the latter are missing.
func TestLiveFlood(t *testing.T) {
	guest.Require(t)
	const made = 2400
	// What the workload prints must not get between the lines of ksnoop.
	work := []string{"--", "sh", "-c", fmt.Sprintf("exec workload threads -threads 4 -count %d -size 47 >/dev/null", made/4)}
	specs := map[string]string{"fentry": "vfs_read(count == 47, *file)", "kprobe": "vfs_read(count == 47, *file, return == 47)"}
	methods(t, func(t *testing.T, attach string) {
		if spec := specs[strings.TrimPrefix(attach, "--attach=")]; spec != "" {
			file := recordingFile(t)
			out, errs, status := printedOnce(t, "ksnoop", append([]string{"trace", attach, "--ringbuf", "64K", "--record", file, "--print", spec}, work...)...)
			shown, lost := records(out, "workload", "vfs_read"), sum(t, summary, errs)
			if n := shown + lost; n > made || n+sum(t, skipped, errs) < made || lost == 0 || status != 0 {
				t.Errorf("%s: %d printed and %d lost of %d, status %d: %s", spec, shown, lost, made, status, errs)
			}
			if marked := sum(t, mark, out); marked != lost {
				t.Errorf("%s: marks of %d records, %d were lost", spec, marked, lost)
			}
			if again, errs2, _ := replayed(t, file); again != out || errs2 != errs {
				t.Errorf("%s: replay shows %d bytes, trace has shown %d; losses\n%swere\n%s", spec, len(again), len(out), errs2, errs)
			}
		}
	})
}

// TestLiveRate: so many calls are shown, both ends of each, and the others
// counted.
func TestLiveRate(t *testing.T) {
	guest.Require(t)
	type rated struct {
		spec string
		each int // records of a call
	}
	cases := []rated{{"vfs_read", 2}, {"vfs_read(count == 53)", 1}, {"vfs_read(count == 53, return == 53)", 1}, {"vfs_read(return)", 1}}
	inTurn(t, cases, func(t *testing.T, attach string, c rated) {
		out, errs, _ := ksnoop(t, "trace", attach, "--rate", "5/h", "-n", "workload", c.spec, "--", "workload", "read", "-count", "100", "-size", "53")
		if n := records(out, "workload", "vfs_read"); n != 5*c.each {
			t.Errorf("%s: %d records, want %d:\n%s", c.spec, n, 5*c.each, out)
		}
		// The Go runtime reads a few bytes as it starts.
		left := sum(t, summary, errs)
		if left < 95 || left > 105 || !strings.Contains(errs, "calls left out by --rate") || sum(t, mark, out) != left {
			t.Errorf("%s: %d calls left out, marks of %d; want 95: %s", c.spec, left, sum(t, mark, out), errs)
		}
	})
}

func TestLiveStop(t *testing.T) {
	guest.Require(t)
	type stop struct {
		args string
		want int
	}
	inTurn(t, []stop{{"-c 7 --latency 0", 7}, {"-c 1000 --latency 1s --for 1h", 20}}, func(t *testing.T, attach string, c stop) {
		args := append([]string{"trace", attach, "vfs_read(count == 59)"}, strings.Fields(c.args)...)
		out := traced(t, append(args, "--", "workload", "read", "-count", "20", "-size", "59")...)
		if n := records(out, "workload", "vfs_read"); n != c.want {
			t.Errorf("%s: %d records, want %d", c.args, n, c.want)
		}
	})
	// Nothing else would end this.
	out, errs, status := ksnoop(t, "trace", "vfs_read(count == 59)", "--for", "500ms", "--stats")
	if status != 0 || records(out, "workload", "vfs_read") != 0 || !strings.Contains(errs, "ksnoop: 0 records printed or written\n") ||
		!strings.Contains(errs, "ksnoop: 0 records lost") {
		t.Errorf("status %d:\n%s", status, errs)
	}
}

// TestLiveTagged: arm64 ignores the highest byte of addresses of user space. One with bit 63 is not read as the kernel's: on a CPU that
// refuses that (PAN), the fault would come again for ever.
func TestLiveTagged(t *testing.T) {
	guest.Require(t)
	if runtime.GOARCH != "arm64" {
		t.Skip("on amd64 such an address is not one of user space")
	}
	name := make([]byte, 16)
	name[0] = unix.AF_INET
	for _, attach := range []string{"--attach=fentry", "--attach=kprobe"} {
		done := make(chan struct{})
		var calls sync.WaitGroup
		calls.Go(func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(20 * time.Millisecond):
					_, _, _ = unix.Syscall(unix.SYS_CONNECT, ^uintptr(0), uintptr(unsafe.Pointer(&name[0]))|1<<63, 16)
				}
			}
		})
		out, errs, status := printedOnce(t, "ksnoop", "trace", attach, "-c", "3", "--for", "1m", "-p", strconv.Itoa(os.Getpid()), "__sys_connect(uservaddr->sa_family, addrlen == 16)")
		close(done)
		calls.Wait()
		if n := strings.Count(out, "__sys_connect("); status != 0 || n != 3 || strings.Contains(out, "sa_family = (") {
			t.Errorf("%s: status %d, %d records:\n%s%s", attach, status, n, out, errs)
		}
	}
}

// TestLiveTruncated counts what is captured in part or not at all.
func TestLiveTruncated(t *testing.T) {
	guest.Require(t)
	for _, attach := range []string{"--attach=fentry", "--attach=kprobe"} {
		_, errs, _ := ksnoop(t, "trace", attach, "--stats", "vfs_write(count == 5000, buf(user(buf), count), *(struct file *)8)", "--",
			"sh", "-c", "dd if=/dev/zero of=/dev/null bs=5000 count=3 2>/dev/null") // what is written is in memory
		for _, want := range []string{"ksnoop: 3 records printed", "ksnoop: 3 records with values that could not be read\n",
			"ksnoop: 3 strings and buffers of which only the beginning was captured\n"} {
			if !strings.Contains(errs, want) {
				t.Errorf("no %q in:\n%s", want, errs)
			}
		}
	}
}
