// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
	"github.com/ksnoop/ksnoop/layout"
)

// TestLiveStaleEvents: events of a process that was killed go when the next one attaches, whatever to, also if another process
// has its number now; those of one that lives and has programs stay.
func TestLiveStaleEvents(t *testing.T) {
	guest.Require(t)
	const file, nobody = "/sys/kernel/tracing/kprobe_events", 1 << 30 // more than PIDs can be
	tracer := guest.LoadPrograms(t)
	names := map[int]string{}
	for _, pid := range []int{nobody, os.Getppid(), tracer} {
		names[pid] = fmt.Sprintf("%[1]s%[2]d/stale_%[2]d", eventGroup, pid)
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(f, "p:%s vfs_read\n", names[pid]); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	if err := (Trial{Method: layout.MethodKprobe}).Run(t.Context(), kernel.OpenRunning(), runtime.GOARCH); err != nil {
		t.Error(err)
	}
	left, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(left), names[nobody]) || strings.Contains(string(left), names[os.Getppid()]) || !strings.Contains(string(left), names[tracer]) {
		t.Errorf("left is\n%s", left)
	}
	if f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0); err == nil {
		fmt.Fprintf(f, "-:%s\n", names[tracer])
		f.Close()
	}
}
