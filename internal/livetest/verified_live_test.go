// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"testing"

	"github.com/cilium/ebpf"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// TestLiveVerifiedSessions counts the instructions that the kernel's verifier follows of all programs of a request, those of
// the engine, too. While it followed what is done with a session from each place anew, a program of sessions took it 38,000 of
// them ("plain", on Linux 6.12), and 133,000 ("all").
func TestLiveVerifiedSessions(t *testing.T) {
	guest.Require(t)
	entry, allow := []string{"do_sys_openat2"}, []string{"vfs_*"}
	for name, c := range map[string]struct {
		run   sessionRun
		limit uint32
	}{
		"plain":  {sessionRun{}, 25000},
		"all":    {sessionRun{args: true, report: bpf.SessionSettings{Traced: true, Interim: true, OffCPU: true}}, 40000},
		"values": {sessionRun{specs: []string{"vfs_open(file->f_flags, return < 0)"}, report: bpf.SessionSettings{Traced: true}}, 40000},
	} {
		t.Run(name, func(t *testing.T) {
			programs, r := 0, c.run
			r.entry, r.allow = entry, allow
			r.during = func(*attach.Tracer) {
				for id := ebpf.ProgramID(0); ; {
					next, err := ebpf.ProgramGetNextID(id)
					if err != nil {
						return
					}
					id = next
					prog, err := ebpf.NewProgramFromID(id)
					if err != nil {
						continue // it has gone since
					}
					info, err := prog.Info()
					prog.Close()
					if err != nil {
						t.Fatal(err)
					}
					programs++
					n, ok := info.VerifiedInstructions()
					if !ok || n == 0 || n > c.limit {
						t.Errorf("the verifier has followed %d instructions of %s, %d is the limit", n, info.Name, c.limit)
					}
					t.Logf("%s: %d", info.Name, n)
				}
			}
			r.sessions(t, func() {})
			if programs < 4 {
				t.Errorf("%d programs were loaded", programs)
			}
		})
	}
}
