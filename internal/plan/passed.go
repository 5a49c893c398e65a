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

// passed returns the type of what a BPF program's function is passed or returns, where its own types
// have t: the kernel's context for that of linux/bpf.h, and the kernel's struct for what the program
// describes of it.
func passed(t btf.Type, types expr.Types) btf.Type {
	p, ok := btf.UnderlyingType(t).(*btf.Pointer)
	if !ok {
		return t
	}
	word, name := "struct ", ""
	switch target := btf.UnderlyingType(p.Target).(type) {
	case *btf.Struct:
		name = target.Name
	case *btf.Fwd:
		name = target.Name
	case *btf.Union:
		word, name = "union ", target.Name
	}
	name, _, _ = strings.Cut(name, "___") // a flavour
	if name == "" {
		return t
	}
	if kernels, ok := contexts[name]; ok && word == "struct " {
		name = kernels
	}
	found, err := types.TypesByName(word + name)
	if err != nil || len(found) == 0 {
		return t
	}
	return &btf.Pointer{Target: found[0]}
}

// passedTo returns a signature with what is really passed and returned.
func passedTo(proto *btf.FuncProto, types expr.Types) *btf.FuncProto {
	out := &btf.FuncProto{Return: passed(proto.Return, types), Params: slices.Clone(proto.Params)}
	for i := range out.Params {
		out.Params[i].Type = passed(out.Params[i].Type, types)
	}
	return out
}
