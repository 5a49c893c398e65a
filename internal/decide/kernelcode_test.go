// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/code"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// A jumped is a jump that a call came by, by its offset, with the first operand.
type jumped struct {
	at    uint64
	taken bool
	value uint64
}

// callOfKernel makes the path of a call of a kernel's function for amd64, which has no probes but on these jumps.
func callOfKernel(t *testing.T, addr uint64, text string, callees code.Callees, jumps []jumped) (*event.Event, *event.Path) {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		t.Fatal(err)
	}
	way, err := plan.NewWay(code.Function{Arch: "amd64", Parts: []code.Part{{Addr: addr, Bytes: b}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	way.Callees = callees
	var steps []bpf.PathStep
	for _, j := range jumps {
		for i := range way.Sites() {
			if s := &way.Sites()[i]; s.Addr == addr+j.at && !s.Start {
				steps = append(steps, step(i, flagsFor(t, s.Test, j.taken), j.value))
			}
		}
	}
	section := bpf.Section{Kind: bpf.SectionPath, Data: bpf.AppendSteps(nil, steps)}
	e := &event.Event{Probe: &plan.Probe{Func: kernel.Function{Name: "check", Addr: addr, Type: checkType}, Way: way}, Tail: bpf.AppendSection(nil, &section)}
	e.Probe.Return = &layout.Half{}
	path, ok := e.Path()
	if !ok || path.Way == nil || path.Way.Broken != 0 || len(path.Decisions) != len(jumps) {
		t.Fatalf("%+v", path)
	}
	return e, &path
}

// flagsFor returns flags with which a jump goes where it has gone.
func flagsFor(t *testing.T, test code.Test, taken bool) uint64 {
	t.Helper()
	for flags := range uint64(1 << 12) {
		if test.Taken(flags) == taken {
			return flags
		}
	}
	t.Fatalf("%+v", test)
	return 0
}

// TestVain: cap_capset of Linux 7.3 asks for CAP_SETPCAP, goes on, and refuses for what security/commoncap.c:292 tests.
func TestVain(t *testing.T) {
	const addr, capable = 0xffffffff819930e0, 0xffffffff81992fd0
	callees := code.Callees{{Addr: 0xffffffff81321500}, {Addr: capable, Name: "cap_capable", Kind: code.Returning, Result: code.Class{Size: 4, Signed: true}}, {Addr: 0xffffffff821671b0, Kind: code.Return}}
	asks := func(name string) bool { return name == "cap_capable" }
	for _, tt := range []struct {
		name  string
		jumps []jumped
		want  bool
	}{
		{"decided by another set", []jumped{{0x4e, false, 0xffffffff}, {0x5d, false, 0}, {0x69, false, 0}, {0x79, true, 0x200000}}, true},
		{"decided by what the capability avoids", []jumped{{0x4e, false, 0xffffffff}, {0x5d, true, 0x200000}}, false},
		{"not in vain, but behind it", []jumped{{0x4e, true, 0}, {0x69, false, 0}, {0x79, true, 0x200000}}, false},
	} {
		e, path := callOfKernel(t, addr, capset, callees, tt.jumps)
		v, ok := Of(e, path)
		if !ok || v.Error != -1 || v.Decision != len(tt.jumps)-1 {
			t.Fatalf("%s: %v %+v", tt.name, ok, v)
		}
		if got := Vain(e, path, &v, asks); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// capset is cap_capset of Linux 7.3.
const capset = `
	f30f1efae817e498ff65488b05278f340241564989d6ba0800000041554d89c541544989cc31c9554889f5534889fb488bb8400d0000488bb790000000e8aefeffff498b142489c1488b45
	3085c9740f488b4d384809c148f7d14885d17571480b454848f7d04885d07565488b5538498b450048f7d24885c2755548f7d0492306754d498b0631c948894340498b042448894330498b
	55004889533848235330498b450048f7d24823435049230424488943504885c2750f5b89c85d415c415d415ee909407d000f0bb9eaffffffebe8b9ffffffffebe1`
