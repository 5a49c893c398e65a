// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/codegen"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/userfunc"
)

// TestUserFunction: both ends of a function of user space are hooked at its place in the file, the
// return first, whatever method the others have; and nothing stays.
func TestUserFunction(t *testing.T) {
	k := newFake(t)
	view := k.view(40) // so many that they share a link
	const file = "../livetest/user/testdata/user_amd64"
	var specs []*expr.Spec
	for _, text := range []string{"uprobe:" + file + ":user_add(return)", "uprobe:" + file + ":user_open($arg1, return)", "uprobe:" + file + ":user_open+1($sp)", "f*(return)"} {
		spec, err := expr.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		specs = append(specs, spec)
	}
	p, _, err := plan.Resolve(view, specs, plan.Options{Arch: "amd64", UserFile: userfunc.Opener("", "amd64")})
	if err != nil {
		t.Fatal(err)
	}
	if p, _, err = choose(p, false, k.has); err != nil {
		t.Fatal(err)
	}
	tracer, err := attachTo(k, p, Options{Settings: bpf.Settings{RingSize: 4096}, Kernel: view, Log: slog.New(slog.DiscardHandler),
		Code: codegen.Options{Arch: "amd64", Session: func() codegen.SessionKfuncs { return codegen.SessionKfuncs{IsReturn: 101, Cookie: 102, Cast: 103} }}})
	if err != nil {
		t.Fatal(err)
	}
	path, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	var hooked []string
	for _, line := range k.log {
		if what, _, ok := strings.Cut(line, " "+path+"+0x"); ok {
			hooked = append(hooked, what)
		}
	}
	if diff := cmp.Diff([]string{"+uretprobe", "+uretprobe", "+uprobe", "+uprobe"}, hooked); diff != "" {
		t.Errorf("(-want +got):\n%s\n%s", diff, strings.Join(k.log, "\n"))
	}
	if err := tracer.Close(); err != nil || len(k.held) > 0 {
		t.Errorf("%v, still open: %q", err, k.held)
	}
}
