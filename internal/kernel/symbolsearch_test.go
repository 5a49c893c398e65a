// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// listed is what SymbolSearch.All has of lines of /proc/kallsyms.
func listed(t *testing.T, lines string) (list []byte) {
	t.Helper()
	for line := range strings.Lines(lines) {
		s, name, module, ok := parseSymbol([]byte(line))
		if !ok {
			t.Fatal(line)
		}
		if len(module) > 0 {
			s.kind |= ListedModule
		}
		list = append(append(binary.NativeEndian.AppendUint64(list, s.addr), s.kind), append(name, 0)...)
		if len(module) > 0 {
			list = append(append(list, module...), 0)
		}
	}
	return list
}

func lines(t *symbolTable) (text []Function) {
	for i := range t.symbols {
		f := t.function(uint32(i))
		f.Name = string(t.symbols[i].kind) + " " + f.Name
		text = append(text, f)
	}
	return text
}

func TestParseSymbolList(t *testing.T) {
	list := listed(t, kallsyms)
	got, err := parseSymbolList(bytes.NewReader(list))
	if err != nil {
		t.Fatal(err)
	}
	want, err := parseSymbols(strings.NewReader(kallsyms), nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(lines(want), lines(got)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want.modules, got.modules); diff != "" {
		t.Error(diff)
	}
	ends := map[int]bool{} // of symbols
	for at := range strings.Count(kallsyms, "\n") {
		ends[len(listed(t, strings.Join(strings.SplitAfter(kallsyms, "\n")[:at+1], "")))] = true
	}
	for n := range len(list) {
		if _, err := parseSymbolList(bytes.NewReader(list[:n])); (err == nil) != ends[n] {
			t.Errorf("%d bytes of %d: %v", n, len(list), err)
		}
	}
	long := listed(t, "ffffffff81000000 t "+strings.Repeat("x", ListedName-1)+"\n")
	if _, err := parseSymbolList(bytes.NewReader(long)); err == nil {
		t.Error("a name that fills its room was taken for whole")
	}
}

// A fakeSearch knows some symbols, each the only one of its name.
type fakeSearch struct {
	sole  map[string]uint64
	asked []string
	list  []byte
}

func (s *fakeSearch) Sole(names []string) ([]Symbol, error) {
	s.asked = append(s.asked, names...)
	var symbols []Symbol
	for _, name := range names {
		addr, ok := s.sole[name]
		if !ok {
			return nil, errors.New("not sole")
		}
		symbols = append(symbols, Symbol{Name: name, Addr: addr})
	}
	return symbols, nil
}

func (s *fakeSearch) All() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(s.list)), nil }

func (s *fakeSearch) Beginning([]string) (io.ReadCloser, error) { return nil, errors.ErrUnsupported }

// TestSoleSymbols: what the search knows needs no other look at the symbols, as often as it
// is asked; of other functions a table of all tells.
func TestSoleSymbols(t *testing.T) {
	search := &fakeSearch{sole: map[string]uint64{"ip_send_skb": 0xffffffff81000050, "no_btf": 0xffffffff81000600}, list: listed(t, kallsyms)}
	files := fstest.MapFS{}
	v := Open(files)
	v.SearchSymbols(search)
	for _, name := range []string{"ip_send_skb", "no_btf", "ip_send_skb"} {
		table, whole, err := v.symbolsNamed([]Function{{Name: name}})
		if err != nil || whole {
			t.Fatalf("%s: %v, %v", name, whole, err)
		}
		if got, want := lines(table), []Function{{Name: "t " + name, Addr: search.sole[name]}}; !cmp.Equal(got, want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if v.table.Load().done.Load() {
		t.Error("all symbols were read")
	}
	asked := len(search.asked)
	for _, f := range []Function{{Name: "copied.isra.0"}, {Name: "mod_probe", Module: "mod"}} {
		if _, err := v.soleSymbols([]Function{f}); err == nil || len(search.asked) != asked {
			t.Errorf("%s: asked for %q", f, search.asked[asked:])
		}
	}
	v.scanned.Store(true)
	if table, whole, err := v.symbolsNamed([]Function{{Name: "twice"}}); err != nil || !whole || len(table.called("twice")) != 2 {
		t.Errorf("twice: %v, %v", whole, err)
	}
}
