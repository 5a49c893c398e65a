// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/codegen"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
	"github.com/ksnoop/ksnoop/layout"
)

// TestLiveVerified counts the instructions that the kernel's verifier follows: of loops,
// and of what comes behind them, it can follow each turn anew, which takes seconds.
func TestLiveVerified(t *testing.T) {
	guest.Require(t)
	view := kernel.Open(os.DirFS("/"))
	for text, limit := range map[string]uint32{
		"vfs_read(count == 12345)":        3000,
		"vfs_read(*file, return > 3)":     10000,
		"vfs_read":                        3000,
		"vfs_read(file->f_flags, return)": 3000,
		"vfs_read(count())":               100,
		"vfs_read(hist(count))":           1500,
		"vfs_read(count()[$comm], stats(count)[$tid], quantiles(count)[$pid])": 20000,
		"vfs_read(top(3, count)[$stack])":                                      80000,
		"vfs_read(file->f_path.dentry->d_inode->i_sb->s_dev == 1 || file->f_inode->i_ino == 3 && file->f_mapping->host->i_size > 4 || file->f_flags == 9, return)": 20000,
	} {
		if strings.Contains(text, "file->") && CapRdonlyCast.ProbeWith(view.TypeCache()) != nil { // before Linux 6.2 a helper reads members
			limit = max(limit, 10000)
		}
		spec, err := expr.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		p, _, err := plan.Resolve(view, []*expr.Spec{spec}, plan.Options{Arch: view.Arch(), Method: func(*plan.Probe) layout.Method { return layout.MethodFentry }})
		if err != nil {
			t.Fatal(err)
		}
		tracer, err := Attach(p, Options{Settings: bpf.Settings{RingSize: 4096}, Code: codegen.Options{Arch: view.Arch()}, Kernel: view, LoadOnly: true, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer tracer.Close()
		programs := 0
		for _, c := range tracer.probes {
			prog, ok := c.(loadedProgram)
			if !ok {
				continue
			}
			programs++
			info, err := prog.Info()
			if err != nil {
				t.Fatal(err)
			}
			n, ok := info.VerifiedInstructions()
			if !ok || n == 0 || n > limit {
				t.Errorf("%s: the verifier has followed %d instructions of %s, %d is the limit", text, n, prog, limit)
			}
			t.Logf("%s: %s: %d", text, prog, n)
		}
		if programs == 0 {
			t.Errorf("%s: no program is loaded", text)
		}
	}
}
