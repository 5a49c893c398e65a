// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"bytes"
	"encoding/binary"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// TestLiveSearchSymbols: a search finds the lines that /proc/kallsyms has, with
// names of any length, of vmlinux and of modules, hidden addresses or not.
func TestLiveSearchSymbols(t *testing.T) {
	guest.Require(t)
	// Their first 8 bytes are all that a search looks at.
	names := []string{"vfs_read", "tun_get_user", "fput", "ip_send_skb", "name_of_nothing"}
	for _, restrict := range []string{"1", "2"} {
		guest.Sysctl(t, "kernel.kptr_restrict", restrict)
		all, err := os.ReadFile("/proc/kallsyms")
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for line := range strings.Lines(string(all)) {
			name := strings.Fields(line)[2]
			if slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(name, n[:min(len(n), 8)]) }) {
				want = append(want, strings.TrimLeft(line, "0"))
			}
		}
		compareAll(t, all)
		found, err := SearchSymbols(kernel.OpenRunning()).Beginning(names)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(found)
		if err != nil {
			t.Fatal(err)
		}
		found.Close()
		var lines []string
		for line := range bytes.Lines(got) {
			lines = append(lines, strings.TrimLeft(string(line), "0"))
		}
		if !slices.Equal(lines, want) || len(want) < 4 {
			t.Errorf("kptr_restrict %s: found\n%swant\n%s", restrict, strings.Join(lines, ""), strings.Join(want, ""))
		}
	}
}

// passing reports whether a line is of what comes and goes as symbols are listed: BPF programs, of which one
// lists them, trampolines of an earlier test, and the pages with instructions of kprobes.
func passing(line []byte) bool {
	for _, what := range []string{" bpf_prog_", " bpf_trampoline_", " kprobe_insn_page\t", " kprobe_optinsn_page\t"} {
		if bytes.Contains(line, []byte(what)) {
			return true
		}
	}
	return false
}

// compareAll compares what a search lists with what /proc/kallsyms had just before.
func compareAll(t *testing.T, text []byte) {
	t.Helper()
	list, err := SearchSymbols(kernel.OpenRunning()).All()
	if err != nil {
		t.Fatal(err)
	}
	defer list.Close()
	all, err := io.ReadAll(list)
	if err != nil {
		t.Fatal(err)
	}
	var got, want []byte
	for len(all) > 0 {
		addr, kind := binary.NativeEndian.Uint64(all), all[8]
		name, rest, _ := bytes.Cut(all[9:], []byte{0})
		digits := strconv.AppendUint(nil, addr, 16)
		line := append(bytes.Repeat([]byte("0"), 16-len(digits)), digits...)
		line = append(append(line, ' ', kind&^kernel.ListedModule, ' '), name...)
		if kind&kernel.ListedModule != 0 {
			var module []byte
			module, rest, _ = bytes.Cut(rest, []byte{0})
			line = append(append(append(line, "\t["...), module...), ']')
		}
		if all = rest; !passing(line) {
			got = append(append(got, line...), '\n')
		}
	}
	for line := range bytes.Lines(text) {
		if !passing(line) {
			want = append(want, line...)
		}
	}
	if !bytes.Equal(got, want) {
		i := 0
		for i < min(len(got), len(want)) && got[i] == want[i] {
			i++
		}
		t.Errorf("listed %d bytes, /proc/kallsyms has %d; they differ here: %.80q, %.80q", len(got), len(want), got[max(0, i-30):], want[max(0, i-30):])
	}
}

// TestLiveSoleSymbols looks up symbols that /proc/kallsyms has once, several times, and not
// as code.
func TestLiveSoleSymbols(t *testing.T) {
	guest.Require(t)
	view := kernel.OpenRunning()
	if !view.AtLeast(countsSymbols.major, countsSymbols.minor) {
		t.Skip("this kernel does not count symbols")
	}
	all, err := os.ReadFile("/proc/kallsyms")
	if err != nil {
		t.Fatal(err)
	}
	count, addrs, data := map[string]int{}, map[string]uint64{}, map[string]bool{}
	for line := range strings.Lines(string(all)) {
		f := strings.Fields(line)
		if len(f) == 4 && (f[3] == "[bpf]" || strings.HasPrefix(f[3], "[__builtin__")) {
			continue
		}
		count[f[2]]++
		if addrs[f[2]], err = strconv.ParseUint(f[0], 16, 64); err != nil {
			t.Fatal(err)
		}
		data[f[2]] = !strings.ContainsAny(f[1], "tTwW") || len(f) == 4 || addrs[f[2]] < addrs["_stext"] || addrs["_etext"] > 0 && addrs[f[2]] >= addrs["_etext"]
	}
	var once []string
	taken := map[bool]int{} // by whether they are to be found
	for i, name := range slices.Sorted(maps.Keys(count)) {
		sole := count[name] == 1 && !data[name]
		if i%100 != 0 && count[name] == 1 || taken[sole] >= 150 {
			continue
		}
		taken[sole]++
		if sole {
			once = append(once, name)
		} else if found, err := soleSymbols(view, []string{name}); err == nil {
			t.Errorf("%s, of which there are %d: found %v", name, count[name], found)
		}
	}
	for names := range slices.Chunk(once, 16) {
		found, err := soleSymbols(view, names)
		if err != nil {
			t.Errorf("%q: %v", names, err)
		}
		for i, s := range found {
			if s.Name != names[i] || s.Addr != addrs[s.Name] || s.Module != "" {
				t.Errorf("%s is %v, want %#x", names[i], s, addrs[names[i]])
			}
		}
	}
	if taken[true] < 100 || taken[false] < 100 {
		t.Errorf("tried %d that are found and %d that are not", taken[true], taken[false])
	}
}
