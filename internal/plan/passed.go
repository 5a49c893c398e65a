// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
)

// contexts are the types that the kernel passes in place of those of linux/bpf.h that programs are
// written with: struct bpf_ctx_convert in kernel/bpf/btf.c, which TestContexts reads. Where both are the
// same, or where it passes a word, nothing is listed. It is never changed.
var contexts = map[string]string{
	"__sk_buff":           "sk_buff",
	"xdp_md":              "xdp_buff",
	"bpf_sock":            "sock",
	"bpf_sock_addr":       "bpf_sock_addr_kern",
	"bpf_sock_ops":        "bpf_sock_ops_kern",
	"sk_msg_md":           "sk_msg",
	"bpf_perf_event_data": "bpf_perf_event_data_kern",
	"bpf_sysctl":          "bpf_sysctl_kern",
	"bpf_sockopt":         "bpf_sockopt_kern",
	"sk_reuseport_md":     "sk_reuseport_kern",
	"bpf_sk_lookup":       "bpf_sk_lookup_kern",
}

// A passing finds the types of what a BPF program is passed and returns, where its own types have others:
// the kernel's context for that of linux/bpf.h, and the kernel's structs for what the program describes of
// them, also behind pointers in structs of its own.
type passing struct {
	types expr.Types
	made  map[btf.Type]btf.Type
}

// mostPassed bounds how many types are looked at. What is behind more is as the program has it. Package
// record counts on it.
const mostPassed = 256

// passedTo returns a signature with what is really passed and returned.
func passedTo(proto *btf.FuncProto, types expr.Types) *btf.FuncProto {
	p := &passing{types, map[btf.Type]btf.Type{}}
	out := &btf.FuncProto{Return: p.of(proto.Return), Params: slices.Clone(proto.Params)}
	for i := range out.Params {
		out.Params[i].Type = p.of(out.Params[i].Type)
	}
	return out
}

// of returns the type that takes the place of t. A struct within another one stays what it is: the program
// has made the room for it.
func (p *passing) of(t btf.Type) btf.Type {
	if made, ok := p.made[t]; ok {
		return made
	}
	if len(p.made) >= mostPassed {
		return t
	}
	switch t := t.(type) {
	case *btf.Pointer:
		out := &btf.Pointer{}
		p.made[t] = out // before what it leads to, which may lead here
		if out.Target = p.kernels(t.Target); out.Target == nil {
			out.Target = p.of(t.Target)
		}
		return out
	case *btf.Struct:
		out := *t
		p.made[t] = &out
		out.Members = p.members(t.Members)
		return &out
	case *btf.Union:
		out := *t
		p.made[t] = &out
		out.Members = p.members(t.Members)
		return &out
	case *btf.Array:
		out := *t
		p.made[t] = &out
		out.Type = p.of(t.Type)
		return &out
	case *btf.Typedef:
		out := *t
		p.made[t] = &out
		out.Type = p.of(t.Type)
		return &out
	case *btf.Const:
		out := *t
		p.made[t] = &out
		out.Type = p.of(t.Type)
		return &out
	case *btf.Volatile:
		out := *t
		p.made[t] = &out
		out.Type = p.of(t.Type)
		return &out
	}
	return t
}

func (p *passing) members(of []btf.Member) []btf.Member {
	out := slices.Clone(of)
	for i := range out {
		out[i].Type = p.of(out[i].Type)
	}
	return out
}

// kernels returns the kernel's struct or union for that of a program; nil if it has none.
func (p *passing) kernels(t btf.Type) btf.Type {
	word, name := "struct ", ""
	switch t := btf.UnderlyingType(t).(type) {
	case *btf.Struct:
		name = t.Name
	case *btf.Fwd:
		name = t.Name
	case *btf.Union:
		word, name = "union ", t.Name
	}
	name, _, _ = strings.Cut(name, "___") // a flavour
	if name == "" {
		return nil
	}
	if kernels, ok := contexts[name]; ok && word == "struct " {
		name = kernels
	}
	found, err := p.types.TypesByName(word + name)
	if err != nil || len(found) == 0 || found[0] == btf.UnderlyingType(t) {
		return nil
	}
	return found[0]
}
