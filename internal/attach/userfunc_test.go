// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/codegen"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/userfunc"
)

const userProgram = "../livetest/user/testdata/user_amd64"

// attachUser attaches to functions of user space, and to so many of the kernel's that they share a link.
func attachUser(t *testing.T, k *fakeKernel, texts ...string) (*Tracer, *plan.Plan) {
	t.Helper()
	view := k.view(40)
	var specs []*expr.Spec
	for _, text := range append(texts, "f*(return)") {
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
	tracer, err := attachTo(k, p, Options{Settings: bpf.Settings{RingSize: 4096}, Kernel: view, Fallback: true, Log: slog.New(slog.DiscardHandler),
		Code: codegen.Options{Arch: "amd64", Kfuncs: func() codegen.Kfuncs { return codegen.Kfuncs{IsReturn: 101, Cookie: 102, Cast: 103} }}})
	if err != nil {
		t.Fatal(err)
	}
	return tracer, p
}

// hookedIn returns what was hooked in user space.
func hookedIn(k *fakeKernel) (hooked []string) {
	path, _ := filepath.Abs(userProgram)
	for _, line := range k.log {
		if what, _, ok := strings.Cut(line, " "+path+"+"); ok {
			hooked = append(hooked, what)
		}
	}
	return hooked
}

// TestUserFunction: both ends of functions of user space are hooked at their places in the file, the
// return first, whatever method the kernel's have; by one link for each end where the kernel has such; and
// nothing stays.
func TestUserFunction(t *testing.T) {
	const file = "uprobe:" + userProgram + ":"
	each := []string{"+uretprobe", "+uretprobe", "+uretprobe", "+uretprobe", "+uretprobe", "+uprobe"}
	for name, c := range map[string]struct {
		specs []string
		old   bool
		want  []string
	}{
		"many":              {[]string{file + "user_*(return)", file + "user_open+1($sp)"}, false, []string{"+uretprobe of 5", "+uprobe of 1"}},
		"both ends":         {[]string{file + "user_*($comm, return)"}, false, []string{"+uretprobe of 5", "+uprobe of 5"}},
		"what differs":      {[]string{file + "user_add(return)", file + "user_open($comm == \"x\")", file + "user_many($comm == \"x\")"}, false, []string{"+uretprobe of 1", "+uprobe of 2"}},
		"added up":          {[]string{file + "user_*(count()[$func])"}, false, []string{"+uprobe of 5"}},
		"added up later":    {[]string{file + "user_*(hist($duration)[$func, $comm])"}, false, []string{"+uretprobe of 5", "+uprobe of 5"}},
		"arguments":         {[]string{file + "user_*($arg1, return)"}, false, []string{"+uretprobe of 5", "+uprobe of 5"}},
		"twice at a place":  {[]string{file + "user_add($comm)", file + "user_add($comm)"}, false, []string{"+uprobe of 2"}},
		"one":               {[]string{file + "user_add($comm, return)"}, false, []string{"+uretprobe of 1", "+uprobe of 1"}},
		"without such link": {[]string{file + "user_*(return)", file + "user_open+1($sp)"}, true, each},
	} {
		t.Run(name, func(t *testing.T) {
			k := newFake(t)
			k.withoutUserMulti = c.old
			tracer, _ := attachUser(t, k, c.specs...)
			if diff := cmp.Diff(c.want, hookedIn(k)); diff != "" || len(tracer.Failed()) > 0 {
				t.Errorf("(-want +got):\n%s\n%v\n%s", diff, tracer.Failed(), strings.Join(k.log, "\n"))
			}
			if err := tracer.Close(); err != nil || len(k.held) > 0 {
				t.Errorf("%v, still open: %q", err, k.held)
			}
		})
	}
}

// TestUserFunctionRefused: of a link that the kernel refuses for one function the others are hooked, and
// this one has neither end.
func TestUserFunctionRefused(t *testing.T) {
	k := newFake(t)
	probe := func(p *plan.Plan) *plan.Probe {
		for _, probe := range p.Probes {
			if probe.Func.Name == "user_weigh" {
				return probe
			}
		}
		t.Fatal("there is no user_weigh")
		return nil
	}
	tracer, p := attachUser(t, k, "uprobe:"+userProgram+":user_*($comm, return)")
	place := probe(p).Hook.Place
	if err := tracer.Close(); err != nil {
		t.Fatal(err)
	}
	k = newFake(t)
	k.refuse[fmt.Sprintf("uprobe %#x", place)] = unix.EOPNOTSUPP
	tracer, p = attachUser(t, k, "uprobe:"+userProgram+":user_*($comm, return)")
	if failed := tracer.Failed(); len(failed) != 1 || failed[0].Probe.Name != probe(p).Name || !errors.Is(failed[0].Err, unix.EOPNOTSUPP) {
		t.Errorf("%v", failed)
	}
	want := map[string]int{"uretprobe": 4, "uprobe": 4}
	for _, what := range k.held {
		var end string
		var n int
		if _, err := fmt.Sscanf(what, "%s of %d ", &end, &n); err == nil && strings.HasPrefix(end, "u") {
			want[end] -= n
		}
	}
	if want["uretprobe"] != 0 || want["uprobe"] != 0 {
		t.Errorf("left to hook: %v\n%s", want, strings.Join(k.log, "\n"))
	}
	if err := tracer.Close(); err != nil || len(k.held) > 0 {
		t.Errorf("%v, still open: %q", err, k.held)
	}
}
