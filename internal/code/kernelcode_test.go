// SPDX-License-Identifier: Apache-2.0

package code

import (
	"encoding/hex"
	"strings"
	"testing"
)

// A jumped is a jump of a kernel's function that a call came by, by its offset.
type jumped struct {
	at    uint64
	taken bool
}

// wayOf returns the hits of a call of a function by the jumps that it came by.
func wayOf(t *testing.T, f *Function, jumps []jumped) (*Graph, []Site, []Hit) {
	t.Helper()
	g, err := NewGraph(f)
	if err != nil {
		t.Fatal(err)
	}
	sites := g.Sites(nil)
	at := newFollower(g, sites)
	var hits []Hit
	for block := g.Entry; block != None; {
		b := &g.Blocks[block]
		if s := at.start[block]; s != None {
			hits = append(hits, Hit{Site: s})
		}
		s := at.branch[block]
		switch {
		case s != None && (len(jumps) == 0 || sites[s].Addr-f.Parts[0].Addr != jumps[0].at):
			t.Fatalf("at +%#x: %v are left", sites[s].Addr-f.Parts[0].Addr, jumps)
		case s != None:
			hits = append(hits, Hit{s, jumps[0].taken})
			if block = b.Next; jumps[0].taken {
				block = b.Taken
			}
			jumps = jumps[1:]
		case b.Taken != None:
			block = b.Taken
		default:
			block = b.Next
		}
	}
	if len(jumps) > 0 {
		t.Fatalf("left before %v", jumps)
	}
	return g, sites, hits
}

// bytesOf reads code in hexadecimal.
func bytesOf(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestDecidingOfKernel: which jump has decided in functions of Debian's kernels for amd64, by their source.
func TestDecidingOfKernel(t *testing.T) {
	const fentry, returns = 0xffffffff81321500, 0xffffffff821671b0
	for _, tt := range []struct {
		name    string
		addr    uint64
		text    string
		callees Callees
		jumps   []jumped
		want    uint64 // its offset; 0: that is not known
	}{
		// fs/namespace.c of Linux 7.3: preempt_enable() comes behind mnt_is_readonly().
		{"mnt_get_write_access of a mount for reading", 0xffffffff817e9e70, writeAccess,
			Callees{{Addr: fentry}, {Addr: returns, Kind: Return}, {Addr: 0xffffffff821678b0, Kind: Keeping}},
			[]jumped{{0x25, true}, {0x3d, false}, {0x45, false}, {0x5c, false}}, 0x45},
	} {
		f := &Function{Arch: "amd64", Parts: []Part{{tt.addr, bytesOf(t, tt.text)}}}
		g, sites, hits := wayOf(t, f, tt.jumps)
		w := f.Walk(g, sites, hits, tt.callees, false)
		got := uint64(0)
		if w.Deciding != None && !w.Unsure {
			got = sites[hits[w.Deciding].Site].Addr - tt.addr
		}
		if got != tt.want || w.Returned == nil || w.Returned.Kind != Constant {
			t.Errorf("%s: +%#x, want +%#x (%+v, %+v)", tt.name, got, tt.want, w, w.Returned)
		}
	}
}

// writeAccess is mnt_get_write_access of Linux 7.3.
const writeAccess = `
	f30f1efae88776b3ff6548ff05a7214f02488b473865ff4008f0834424fc00488b4768a801740af390488b4768a80175f6488b47088b806004000085c075088b471083e040741c488b4738
	65ff4808b8e2ffffff6548ff0d5c214f027411e9ddd29700488b5708f642600175daebe5e8ccd99700e9c7d29700`
