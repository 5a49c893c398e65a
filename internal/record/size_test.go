// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/calls"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/symbols"
	"github.com/ksnoop/ksnoop/layout"
)

// largest is how large a recording of one call or session may be, in bytes.
const largest = 150_000

// realKernels returns the types of real kernels, by name: of the one that runs here, and
// those that the module cilium/ebpf has for its own tests. A symbol is made up for each
// function.
func realKernels(t testing.TB) map[string]fstest.MapFS {
	t.Helper()
	kernels := map[string][]byte{}
	if data, err := os.ReadFile("/sys/kernel/btf/vmlinux"); err == nil {
		kernels["running"] = data
	}
	if dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/cilium/ebpf").Output(); err == nil {
		packed, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "btf/testdata/vmlinux.btf.gz"))
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			t.Fatal(err)
		}
		if kernels["cilium/ebpf"], err = io.ReadAll(z); err != nil {
			t.Fatal(err)
		}
	}
	if len(kernels) == 0 {
		t.Skip("needs the types of a real kernel: neither here nor in the module cilium/ebpf are any")
	}
	roots := map[string]fstest.MapFS{}
	for name, data := range kernels {
		roots[name] = fstest.MapFS{btfDir + "vmlinux": {Data: data}, "proc/sys/kernel/osrelease": {Data: []byte("6\n")}, symbolFile: {Data: functionSymbols(t, data)}}
	}
	return roots
}

// Where functionSymbols begin, and how long each is.
const firstCode, codeSize = uint64(0xffffffff81000000), 0x80

func functionSymbols(t testing.TB, types []byte) []byte {
	spec, err := btf.LoadSpecFromReader(bytes.NewReader(types))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	at := firstCode
	for typ, err := range spec.All() {
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := typ.(*btf.Func); ok {
			fmt.Fprintf(&b, "%x t %s\n", at, typ.TypeName())
			at += codeSize
		}
	}
	return b.Bytes()
}

// callsOf makes one record of each kind, of words some of which are addresses of code: in
// functions, and at their very ends.
func callsOf(p *plan.Plan) (raw [][]byte) {
	for _, p := range p.Probes {
		for kind, half := range map[bpf.Kind]*layout.Half{bpf.KindEntry: p.Entry, bpf.KindReturn: p.Return} {
			if half == nil || half.Record == nil {
				continue
			}
			if p.Joined {
				kind = bpf.KindCall
			}
			data := bpf.AppendEvent(nil, &bpf.Event{Time: 1, Probe: uint32(p.ID), PID: 7, TID: 7, Kind: kind})
			for i := range uint64(half.Record.Size / 8) {
				word := i << 32 * (i & 1)
				if i%4 == 1 {
					word = firstCode + i*codeSize*3 + i%3
				}
				data = binary.LittleEndian.AppendUint64(data, word)
			}
			raw = append(raw, data)
		}
	}
	return raw
}

// printedBy prints calls as ksnoop does, with the names of a kernel.
func printedBy(t testing.TB, p *plan.Plan, view *kernel.View, raw [][]byte) string {
	t.Helper()
	printer := output.NewCalls(output.Names{Symbol: symbols.Appender(view)})
	var out []byte
	for _, rec := range raw {
		var e event.Event
		if err := event.Decode(p, rec, &e); err != nil {
			t.Fatal(err)
		}
		call := &calls.Call{Entry: &e, End: calls.Whole}
		if e.Kind == bpf.KindReturn {
			call = &calls.Call{Return: &e, End: calls.Whole}
		}
		var err error
		if out, err = printer.AppendCall(out, call); err != nil {
			t.Fatal(err)
		}
	}
	return string(out)
}

// TestSize: a recording has what its records can reach, rather than the 3 MB that all
// symbols and types of these kernels take. What it lacks changes no byte of the print.
func TestSize(t *testing.T) {
	for name, root := range realKernels(t) {
		for text, later := range map[string][]string{
			"ip_send_skb":                       {"sk_buff", "sock", "net_device"},
			"vfs_read(file, count, return < 0)": {"file", "inode"},
			"tcp_v4_connect(*sk, *sk->sk_socket, sk->__sk_common.skc_net.net->ifindex)":        {"sock", "socket", "net"},
			"ip_send_skb(*skb->dev, ((struct tcp_sock *)skb->sk)->snd_nxt == TCP_ESTABLISHED)": {"net_device", "tcp_sock"},
		} {
			f := fixtureOf(t, root, layout.MethodKprobe, text)
			f.raw = callsOf(f.plan)
			data := f.bytes(t)
			if len(data) > largest {
				t.Errorf("%s: %s: %d bytes", name, text, len(data))
			}
			r, raw, err := read(data)
			if err != nil {
				t.Errorf("%s: %s: %v", name, text, err)
				continue
			}
			if got, want := printedBy(t, r.Plan(), r.Kernel(), raw), printedBy(t, f.plan, f.source.View, f.raw); got != want || len(want) < 100 {
				t.Errorf("%s: %s: replay prints\n%s\nwant\n%s", name, text, got, want)
			}
			for _, s := range later {
				if got, want := membersOf(t, r.Kernel(), s), membersOf(t, f.source.View, s); got != want {
					t.Errorf("%s: %s: struct %s has members\n%s\nwant\n%s", name, text, s, got, want)
				}
			}
			f.source.Full = true
			if whole := len(f.bytes(t)); whole < 1_000_000 {
				t.Errorf("%s: %s: %d bytes with all types and symbols", name, text, whole)
			}
			t.Logf("%s: %s: %d bytes", name, text, len(data))
		}
	}
}

// membersOf lists the members of a struct, with where they are.
func membersOf(t testing.TB, view *kernel.View, name string) string {
	types, err := view.TypesByName("struct "+name, "")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, typ := range types {
		if s, ok := typ.(*btf.Struct); ok {
			for _, m := range s.Members {
				fmt.Fprintf(&b, "%s %d %d %s\n", m.Name, m.Offset, m.BitfieldSize, m.Type.TypeName())
			}
		}
	}
	if b.Len() == 0 {
		t.Errorf("no struct %s", name)
	}
	return b.String()
}

// TestSessionSize: the same for a session with the arguments of all functions.
func TestSessionSize(t *testing.T) {
	for name, root := range realKernels(t) {
		view := kernel.Open(root)
		request := plan.SessionRequest{Args: true}
		for list, texts := range map[*[]*expr.Spec][]string{&request.Entry: {"do_sys_openat2"}, &request.Allow: {"path_*", "link_path_walk*", "may_open", "security_file_*"}} {
			for _, text := range texts {
				spec, err := expr.Parse(text)
				if err != nil {
					t.Fatal(err)
				}
				*list = append(*list, spec)
			}
		}
		s, _, err := plan.ResolveSession(view, request, plan.Options{Arch: "amd64"})
		if err != nil {
			t.Fatal(err)
		}
		f := &fixture{source: Source{Root: root, View: view, Arch: "amd64", Writer: "test", Sessions: &Sessions{Traced: true, Args: true}}, plan: s}
		f.raw = [][]byte{slices.Concat(callsOf(s)...)} // not a session, but as large as one
		data := f.bytes(t)
		r, _, err := read(data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(data) > largest || len(s.Probes) < 20 || describeSession(s) != describeSession(r.Plan()) {
			t.Errorf("%s: %d bytes for %d functions", name, len(data), len(s.Probes))
		}
		t.Logf("%s: %d functions: %d bytes", name, len(s.Probes), len(data))
	}
}
