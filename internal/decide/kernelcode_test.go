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

// TestForgiven: ip_route_output_key_hash_rcu of Linux 7.3 finds no route (net/ipv4/route.c:2801, where fib_lookup is inlined), and then
// looks whether an interface was asked for, for which it does without one.
func TestForgiven(t *testing.T) {
	const addr, lookup = 0xffffffff81f6ab20, 0xffffffff81fe1bf0
	number := code.Class{Size: 4, Signed: true}
	callees := code.Callees{{Addr: lookup, Name: "fib_table_lookup", Kind: code.Returning, Result: number},
		{Addr: 0xffffffff81ff4470, Name: "__fib_lookup", Kind: code.Returning, Result: number}, {Addr: 0xffffffff821671b0, Kind: code.Return}}
	asked := []jumped{{0x2b, true, 0}, {0x90, false, 0}, {0x9e, true, 0x8080808}}
	for _, tt := range []struct {
		name  string
		jumps []jumped
		at    uint64 // which jump has decided
		holds string
		later bool
	}{
		{"no route", append(asked[:3:3], jumped{0x2be, false, 0}, jumped{0x2d8, false, 1}, jumped{0x2ed, false, 0xfffffff5}, jumped{0x2f9, true, 0}, jumped{0x396, true, 0}), 0x2ed, "fib_table_lookup() (-EAGAIN) == -11", true},
		{"an error of rules for routes", append(asked[:3:3], jumped{0x2be, true, 1}, jumped{0x33a, true, 0xfffffff3}, jumped{0x396, true, 0}), 0x33a, "__fib_lookup() (-EACCES) != 0", true},
	} {
		e, path := callOfKernel(t, addr, outputKey, callees, tt.jumps)
		v, ok := Of(e, path)
		if !ok || v.Decision < 0 || path.Decisions[v.Decision].Site.Addr != addr+tt.at || v.Holds != tt.holds || (v.Later != nil) != tt.later {
			t.Errorf("%s: %v %+v", tt.name, ok, v)
		} else if tt.later && path.Decisions[v.Later.Decision].Site.Addr != addr+0x396 {
			t.Errorf("%s: later %+v", tt.name, v.Later)
		}
	}
}

// outputKey is ip_route_output_key_hash_rcu of Linux 7.3.
const outputKey = `
	f30f1efae8d7693bff415741564989ce415541544989d4554889fd534889f34883ec30448b3e8b762885f6745e89f025f00000003de00000000f845b02000083feff0f84520200004585ff
	0f85890100008b432c89c281e2f000000081fae00000000f845105000083f8ff0f8448050000f64313010f84280500004531ed85c00f853102000089732ceb324489fe85f60f8551010000
	8b432c4531ed85c00f85130200008b432885c00f856e02000048b87f0000017f000001488943284c8badd0020000c7030100000041bb0200000041b90000008041c6442406024d8b442418
	4d8bb5400400004d85f60f84a9010000498b06488b8008010000488b80500500008b506c85d27515418b962c01000085d2750a807b287f0f84630100008b732c83feff0f84b002000089f2
	81e2f000000081fae00000000f843205000085f60f845401000041f685b000000008ba00000080440f45ca664183fb030f84b9030000664183fb050f8403050000664183fb020f85a90300
	004585ff0f84a0030000453bbde00000000f84930300004d85c00f848a050000498b7c24104c8944240844890c24e876c6ffff4c8b442408448b0c2441bb020000004989c2498b06410fb7
	d3488b8008010000488b8050050000c6042400e91b020000f64313010f84bf0300004489fe4889efe8d113f2ff4989c54885c00f84e0040000f680b0000000010f848f030000488b804004
	00004885c00f847f0300008b432c448b4b2889c281e2ffffff0081fae00000000f840a04000083f8ff0f8401040000807b12020f84f70300004585c90f859804000089c281e2f000000081
	fae00000000f84a706000085c07550bafe00000031f64c89efe8baed05008943288b432ce91bfeffff41f685b0000000080f858ffeffff41f64502040f8584feffff48c7c5eaffffff4883
	c4304889e85b5d415c415d415e415fe9d9c31f0080bda0050000007565e8fbdb4dff41c744240800000000488bbd880500004885ff7415b9010000004c89e24889dee8e66d070083f8f575
	21488bbd900500004885ff7479b9010000004c89e24889dee8c56d070083f8f57464890424e8386e4eff8b0424eb1b89432ce998fdffffb9010000004c89e24889de4889efe81896080085
	c0754241807c2406020f84260400004c89f14889da4c89e64889efe8273a0700498b4424104c8b284d8b442418450fb65c24064531c9e96dfdffffe8d76d4effb89bffffff49c744241800
	00000049c744242000000000448b034585c0743a8b532c81e2f000000081fae000000074078b7b0885ff75228b73284531c085f60f844703000041c64424060141bb010000004531c9e90f
	fdffff4863e8e9c7feffffc6042400ba030000004531c04531d241b90000009041bb030000008b4040b90100000085c0750e418b860001000031c985c00f95c14489ce4c89ef4c89442420
	44895c24184c8954241044894c2408e8a2a6ffff4889c54885c00f84d50100004489b89400000065ff0510a3d801448b4c24084c8b542410448b5c24184c8b44242041f7c1000000300f84
	aa0000004585c90f88a90100008b732c664183fb0574520fb604244c89e24531c94c89d14889ef50e88ed9ffff488b85800000005a4885c00f84fefdffff0fb75002f6c2010f8536010000
	83e2020f84e8fdffff488b55284889501848c74528a084f081e9d3fdffff498b06488b8008010000488b80500500008b400c85c07496418b86cc00000085c0748b89f025ffffff003de000
	00000f8479ffffff48c7452860bcff8148c7453040c1ff818b732ce961ffffff41b9000000904d85c00f84dd020000498b6c24104c8944241044895c24084889ef44890c24e8dbc2ffff44
	8b0c24448b5c24084c8b4424104989c2498d42304d85d20f8489020000488b284885ed740e0fb7453a6683f8ff0f849e020000498b06410fb7d3488b8008010000488b8050050000c60424
	01e95efeffff48c7c59bffffffe9fefcffff31d24889efe8330206004885c074e58b33e9d5faffff31d24889efe81d0206004989c54885c074cc8b80e00000004531c989034d8b44241845
	0fb65c2406e9fbfaffff488b553048895010488b858000000048c74530c085f0814885c00f849bfcffff0fb75002e9a1feffff48c7c597ffffffe986fcffff41f685b0000000080f8549fe
	ffff48c740301056f78165ff0524a1d801e935feffff4585c90f851bfdffffbafd00000031f64c89ef44890c24e8d7e90500448b0c248943284d8b442418450fb65c2406e971faffff0fb6
	4b128b53284c89f74c890424e88dc306004c8b042485c0746dc64424080041b9000000a04d85c00f843702000041807c2404034c894424100f8788000000498b06c6042400ba0500000045
	31c041bb050000004531d2488b8008010000488b8050050000e91afdffff48c7c5edffffffe9bafbffff85c00f85c8fbffff44894b2ce9c5f9ffffc64424080141b900000020eb91bafd00
	000031f64c89efe81ce905008943284d8b442418e99dfcffffc60424004531d2ba0200000041bb02000000e9bdfcffff498b6c24108b732c44890c244889efe8d4c0ffff807c240800448b
	0c2441bb050000004c8b4424104989c20f8453faffffe9e8fdffff8b4b2885c97512498b4424188b404885c075038b432c894328498b4424104c8b284d85ed0f8466010000418b5500f7c2
	00000400752581e2000020000f844e0100004c89efe88820f2ff4989c5498b4424104d85ed0f8435010000448b7808418b85e000000041b90000008089034d8b442418450fb65c2406e9f5
	f8fffff64313020f851d010000488b4530654803050e0dd701e95cfdffffc6042400410fb7d34531d2e9defbffff4c8944242844895c24204c8954241844894c2410e890d64dff488b4500
	8b8d88000000488b8008010000890c248b807c07000089442408e8fd684eff8b442408390424448b4c24104c8b542418448b5c24204c8b4424280f8505fdffff488d7d40f0834540010f98
	04240f891afaffff4c8944242044895c24184c8954241044894c2408e8706cbbff84c00f85f9f9ffff498b06448b5c2418448b4c24084c8b542410488b80080100004c8b442420410fb7d3
	488b8050050000e91ffbffff498b06c60424004531d2ba0500000041bb05000000488b8008010000488b8050050000e9f7faffff4c8badd0020000e9bffeffff0fb65311e959f9ffff807d
	0e000f849ff8ffff807d0cfd0f84cffeffffe990f8ffff`
