// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
)

func TestSay(t *testing.T) {
	var b strings.Builder
	log := slog.New(sentences{&b, slog.LevelInfo})
	log.Debug("not shown")
	p := &plan.Plan{}
	for i := range 7 {
		method := plan.MethodKprobe
		if i == 0 {
			method = plan.MethodFentry
		}
		p.Probes = append(p.Probes, &plan.Probe{Func: kernel.Function{Name: fmt.Sprint("f", i)}, Method: method})
	}
	sayAttached(log, p, []attach.Failure{{Probe: p.Probes[6], Err: errors.New("kprobe of f6: busy")}})
	var skipped []plan.Skipped
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		skipped = append(skipped, plan.Skipped{Func: kernel.Function{Name: "tcp_" + name}, Why: fmt.Errorf("tcp_%s has no parameter sk", name)})
	}
	sayLeftOut(log, skipped)
	const want = `ksnoop: f6: not traced: kprobe of it: busy
ksnoop: f0: attached with fentry
ksnoop: 5 functions (f1, f2, f3, f4, ...): attached with kprobe
ksnoop: 5 functions (tcp_a, tcp_b, tcp_c, tcp_d, ...): left out: it has no parameter sk
`
	if b.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", b.String(), want)
	}
}
