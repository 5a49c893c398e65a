// SPDX-License-Identifier: Apache-2.0

package exprfuzz_test

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/livetest"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
	"github.com/ksnoop/ksnoop/layout"
)

// combined are SPECs of one function that have the language's items in the company in
// which they need most: strings to match, in conditions and as values, strings and
// buffers to show, at both ends of the call, and members that are read together.
var combined = []string{
	`do_sys_openat2(ustr(filename) ~ "aaaa*", ustr(filename))`,
	`do_sys_openat2(ustr(filename) ~ "*a*b", ustr(filename), return == -ENOENT)`,
	`do_sys_openat2(exit(ustr(filename)) ~ "a*b*", diff(ustr(filename)), $comm ~ "a*b*c", diff($comm))`,
	`do_sys_openat2(+(ustr(filename) ~ "*b" || str(how) ~ "c*"), exit(+(ustr(filename) ~ "*b*")), how->flags, how->mode, how->resolve)`,
	`do_sys_openat2(ustr(filename) == "` + strings.Repeat("x", 250) + `", buf(how, dfd), buf(user(filename), 4096), exit(buf(how, return)))`,
	`do_sys_openat2(diff(how), diff(buf(how, 24)), exit(how), exit(how->flags), exit(how->mode), return < -4095 || return == -ENOENT, $duration)`,
	`do_sys_openat2(dfd + (dfd * (how->flags - (dfd / (how->mode | how->resolve)))) == 12, ustr(filename) != "", exit($cpu) != $cpu, $duration > 1)`,
}

// inSessions are the methods that programs of sessions depend on most.
var inSessions = []layout.Method{layout.MethodFentry, layout.MethodKprobe, layout.MethodKprobeSession}

// TestLiveCombinations: no SPEC is refused by the verifier, whatever it is attached by,
// with filters and stacks and without, in sessions and out of them.
func TestLiveCombinations(t *testing.T) {
	guest.Require(t)
	a := newAcceptance(t)
	var specs []*expr.Spec
	for _, text := range combined {
		specs = append(specs, parsed(t, text))
	}
	every := map[layout.Method]attach.Capability{layout.MethodFentry: attach.CapFexit, layout.MethodKprobe: attach.CapKretprobe, layout.MethodKprobeMulti: attach.CapKprobeMulti,
		layout.MethodKprobeSession: attach.CapKprobeSession, layout.MethodFsession: attach.CapFsession, layout.MethodTracingMulti: attach.CapTracingMulti}
	for m, needs := range every {
		if needs.Probe() != nil || livetest.Smoke() && m != layout.MethodKprobe || !livetest.Mine(t, int(m)) {
			continue
		}
		t.Run(m.String(), func(t *testing.T) {
			o := plan.Options{Arch: a.view.Arch(), Method: func(*plan.Probe) layout.Method { return m }}
			calls, _, err := plan.Resolve(a.view, specs, o)
			if err != nil {
				t.Fatal(err)
			}
			options := attach.Options{Settings: bpf.Settings{RingSize: 1 << 16}, Code: a.target, Kernel: a.view, LoadOnly: true, Log: slog.New(slog.DiscardHandler)}
			plain := options
			options.Code.Filtered, options.Code.Limited, options.Code.Stacks = true, true, true
			options.Settings.Tail = bpf.Tail{Stack: 127, UserStack: 127}
			loads(t, calls, options)
			if !slices.Contains(inSessions, m) {
				return
			}
			s, _, err := plan.ResolveSession(a.view, plan.SessionRequest{Entry: []*expr.Spec{parsed(t, "do_sys_openat2")}, Args: true, Specs: []*expr.Spec{specs[3],
				parsed(t, `vfs_read(exit(ustr(buf)) ~ "a*b*", diff(user(buf)), diff(file), exit(buf(user(buf), return)), exit(pos), file->f_flags, file->f_mode)`)}}, o)
			if err != nil {
				t.Fatal(err)
			}
			if plain, err = attach.SessionOptions(s, plain, bpf.SessionSettings{Count: 1}); err != nil {
				t.Fatal(err)
			}
			loads(t, s, plain)
		})
	}
}

func parsed(t *testing.T, text string) *expr.Spec {
	t.Helper()
	spec, err := expr.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// loads has the kernel check all programs of a plan.
func loads(t *testing.T, p *plan.Plan, o attach.Options) {
	t.Helper()
	tracer, err := attach.Attach(p, o)
	if err != nil {
		t.Errorf("%v", lastWord(err))
		return
	}
	defer tracer.Close()
	for _, f := range tracer.Failed() {
		t.Errorf("%s: %v", f.Probe.Spec.Text, lastWord(f.Err))
	}
}
