// SPDX-License-Identifier: Apache-2.0

package why

import (
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/code"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// A callGraph knows which functions lead to which, by the code of the running kernel. Code is read
// when it is first asked for.
type callGraph struct {
	arch   string
	symbol func(addr uint64) (kernel.Symbol, bool)
	read   func(kernel.Symbol) ([]byte, error)
	// describe returns the functions at some addresses that can be traced, with their types.
	describe func(addrs []uint64) ([]kernel.Function, error)
	thunks   map[uint64]string // of the address of a thunk, where it leads to, as code.Call has it
	nodes    map[uint64]*node
	kinds    map[uint64]kind
}

// A node is the code of one function.
type node struct {
	parts   []uint64 // that lie elsewhere
	callees []uint64
	sites   []site
	// pointers are the instructions that call through pointers, those of sites and those that take no kprobe.
	pointers []uint64
}

// A site is a call of what a register or memory points to.
type site struct {
	function string
	offset   uint64
	at       string // where it leads to, as code.Call has it
	call     uint64 // the instruction that calls, which may be behind the one with the kprobe
}

// place is the instruction, as a SPEC selects it.
func (s site) place() string { return "kprobe:" + s.function + hexOffset(s.offset) }

// A kind is what a function is to a search.
type kind struct {
	function kernel.Function
	traced   bool // calls of it are recorded
	passed   bool // what it calls is looked at
	known    bool
}

// node returns a function's code. What cannot be read calls nothing.
func (g *callGraph) node(addr uint64) *node {
	if n := g.nodes[addr]; n != nil {
		return n
	}
	n := &node{}
	g.nodes[addr] = n
	s, ok := g.symbol(addr)
	if !ok || s.Offset != 0 {
		return n
	}
	g.add(n, s, s.Name, 0)
	return n
}

// coldDepth is how often code of one function may lead to a part of it that lies elsewhere.
const coldDepth = 2

// add adds the calls of a part of a function.
func (g *callGraph) add(n *node, s kernel.Symbol, function string, depth int) {
	text, err := g.read(s)
	if err != nil {
		return
	}
	for _, c := range code.Calls(g.arch, text, s.Addr) {
		if at, ok := g.thunks[c.To]; ok {
			c.To, c.At = 0, at
		}
		if c.To == 0 {
			if !c.Jump || g.arch == "amd64" { // there are no tables of jumps, since they would need retpolines
				n.pointers = append(n.pointers, c.From)
			}
			if s.Module == "" && depth == 0 && c.Probe != 0 && (c.Sets == "" || !strings.Contains(c.At, c.Sets)) { // kprobes select the others by no name
				n.sites = append(n.sites, site{function, c.Probe - s.Addr, c.At, c.From})
			}
			continue
		}
		to, ok := g.symbol(c.To)
		switch {
		case !ok:
		case strings.HasPrefix(to.Name, function+".cold") && to.Module == s.Module && depth < coldDepth:
			to.Addr, to.Offset = c.To-to.Offset, 0
			if !slices.Contains(n.parts, to.Addr) {
				n.parts = append(n.parts, to.Addr)
				g.add(n, to, function, depth+1)
			}
		case to.Offset == 0 && !slices.Contains(n.callees, c.To):
			n.callees = append(n.callees, c.To)
		}
	}
}

// noise are functions that call much and refuse nothing. That modprobe has found no module is one of
// them: whoever has asked for it looks again for what it should have brought, and fails by that.
var noise = []string{"_printk", "vprintk*", "__request_module", "panic", "dump_stack*", "vsnprintf", "vscnprintf", "snprintf", "scnprintf", "schedule*", "__schedule", "__warn*", "_dev_*", "trace_*", "__traceiter_*", "perf_*_event*", "rcu_*",
	"audit_log*", "kfree*", "kasan_*", "kmsan_*", "__kcsan*", "lockdep_*"}

// leaves are functions that may fail, whatever is the reason for that: no memory, or a signal.
var leaves = []string{"kmalloc*", "__kmalloc*", "krealloc*", "kmem_cache_alloc*", "kvmalloc*", "__kvmalloc*", "vmalloc*", "__vmalloc*", "vzalloc*", "*alloc_pages*", "__alloc_*",
	"get_zeroed_page*", "__get_free_pages*", "mutex_lock_*", "down_*", "wait_for_*", "_copy_*_user", "copy_*_user", "strncpy_from_user", "get_user_pages*", "*alloc_percpu*"}

// comparisons are functions that return a difference, which is no error where it is negative.
var comparisons = []string{"*cmp", "*_compare", "proc_match"}

// classify finds out what functions are to a search.
func (g *callGraph) classify(addrs []uint64) error {
	var unknown []uint64
	for _, a := range addrs {
		if !g.kinds[a].known {
			unknown = append(unknown, a)
			g.kinds[a] = kind{passed: true, known: true}
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	found, err := g.describe(unknown)
	if err != nil {
		return err
	}
	for _, f := range found {
		k := kind{function: f, known: true}
		void := false
		class := layout.FailsInt32 // as an int may be, if it has no type
		if f.Type != nil {
			if proto, ok := f.Type.Type.(*btf.FuncProto); ok {
				_, void = btf.UnderlyingType(proto.Return).(*btf.Void)
				class = layout.ClassOf(f.Name, result(proto))
			}
		}
		if quiet := matches(noise, f.Name); !void && !quiet {
			k.passed = !matches(leaves, f.Name)
			k.traced = class != layout.NeverFails && !matches(comparisons, f.Name) && !plan.UsedByTracing(f)
		}
		if old := g.kinds[f.Addr]; !old.traced { // one of its names may have no type
			g.kinds[f.Addr] = k
		}
	}
	return nil
}

// result returns what a function returns; nil for nothing.
func result(proto *btf.FuncProto) btf.Type {
	if _, void := btf.UnderlyingType(proto.Return).(*btf.Void); void || proto.Return == nil {
		return nil
	}
	return proto.Return
}

// A reached is what a search has found, nearest first.
type reached struct {
	functions []kernel.Function
	sites     []site
}

// inside returns the function that one which serves a system call does no more than call, if it
// cannot be traced; else "".
func (g *callGraph) inside(addr uint64) string {
	for _, a := range g.node(addr).callees {
		if s, ok := g.symbol(a); ok && g.kinds[a].function.Name == "" && strings.HasPrefix(s.Name, "__do_sys_") {
			return s.Name
		}
	}
	return ""
}

// reach searches the functions that some lead to by direct calls: most of them at most, depth
// calls deep. They are those whose calls may fail; the roots are among them. Behind those that
// tell nothing, such as functions that return a truth value, the search goes on as if they were
// a part of their caller. sites are those of functions less than siteDepth deep.
func (g *callGraph) reach(roots []uint64, most, depth, siteDepth int) (r reached, err error) {
	seen := map[uint64]bool{}
	level := roots
	for at := 0; len(level) > 0; at++ {
		var next []uint64
		for len(level) > 0 { // and then what lies behind those of it that tell nothing
			if err := g.classify(level); err != nil {
				return r, err
			}
			var same []uint64
			for _, a := range level {
				if seen[a] {
					continue
				}
				seen[a] = true
				k := g.kinds[a]
				root := at == 0 && slices.Contains(roots, a)
				if k.traced || root && k.function.Name != "" {
					if len(r.functions) == most {
						return r, nil
					}
					r.functions = append(r.functions, k.function)
				}
				if !k.passed && !root || k.traced && at >= depth {
					continue
				}
				n := g.node(a)
				if at < siteDepth {
					r.sites = append(r.sites, n.sites...)
				}
				if k.traced || root {
					next = append(next, n.callees...)
				} else {
					same = append(same, n.callees...)
				}
			}
			level = same
		}
		level = next
	}
	return r, nil
}
