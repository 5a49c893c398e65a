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
// the engine, too. If it follows what is done with a session from each place anew, a program of sessions takes it five times as many.
func TestLiveVerifiedSessions(t *testing.T) {
	guest.Require(t)
	for name, r := range map[string]sessionRun{
		"plain":  {entry: []string{"do_sys_openat2"}, allow: []string{"vfs_*"}},
		"all":    {entry: []string{"do_sys_openat2"}, allow: []string{"vfs_*"}, args: true, report: bpf.SessionSettings{Traced: true, Interim: true, OffCPU: true}},
		"values": {entry: []string{"do_sys_openat2"}, allow: []string{"vfs_*"}, specs: []string{"vfs_open(file->f_flags, return < 0)"}, report: bpf.SessionSettings{Traced: true}},
	} {
		t.Run(name, func(t *testing.T) {
			const limit = 40000
			programs := 0
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
					if !ok || n == 0 || n > limit {
						t.Errorf("the verifier has followed %d instructions of %s, %d is the limit", n, info.Name, limit)
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
