// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
)

// printBTF writes a file with a few types.
func printBTF(t *testing.T) string {
	t.Helper()
	u32 := &btf.Typedef{Name: "u32", Type: &btf.Int{Name: "unsigned int", Size: 4}}
	char := &btf.Int{Name: "char", Size: 1, Encoding: btf.Signed}
	list := []btf.Type{
		&btf.Struct{Name: "point", Size: 8, Members: []btf.Member{{Name: "x", Type: u32}, {Name: "y", Type: u32, Offset: 32}}},
		&btf.Struct{Name: "named", Size: 8, Members: []btf.Member{
			{Name: "id", Type: &btf.Typedef{Name: "dev_t", Type: u32}},
			{Name: "name", Type: &btf.Array{Index: u32, Type: char, Nelems: 4}, Offset: 32},
		}},
		&btf.Fwd{Name: "hidden"},
	}
	b, err := btf.NewBuilder(list, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := b.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, "types.btf", raw)
}

func writeFile(t *testing.T, name string, content []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, content, 0o666); err != nil {
		t.Fatal(err)
	}
	return file
}

// runPrint returns what "ksnoop print" writes, its notes, and its exit status.
func runPrint(stdin string, args ...string) (out, notes string, status int) {
	var stdout, stderr bytes.Buffer
	c := newPrintCommand()
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetIn(strings.NewReader(stdin))
	c.SetOut(&stdout)
	c.SetErr(&stderr)
	c.SetArgs(args)
	if err := c.Execute(); err != nil {
		stderr.WriteString(err.Error())
		status = statusOf(err)
	}
	return stdout.String(), stderr.String(), status
}

func TestPrint(t *testing.T) {
	types := printBTF(t)
	const point = "\x01\x00\x00\x00\x02\x00\x00\x00"
	file := writeFile(t, "point", []byte("head"+point))
	for _, tt := range []struct {
		name  string
		stdin string
		args  []string
		want  string
	}{
		{"default", point, []string{"struct point"}, "(struct point){\n\t.x = (u32)1,\n\t.y = (u32)2,\n}\n"},
		{"dash", point, []string{"struct  point", "-", "--compact"}, "(struct point){.x = (u32)1,.y = (u32)2,}\n"},
		{"file", "", []string{"struct point", file, "--offset", "4", "--compact"}, "(struct point){.x = (u32)1,.y = (u32)2,}\n"},
		{"hex", "0x01 0 0,0\n02:00:00:00", []string{"struct point", "--hex", "--no-types", "--compact"}, "{.x = 1,.y = 2,}\n"},
		{"hex in one", "0100000002000000", []string{"struct point", "--hex", "--no-types", "--no-names", "--compact"}, "{1,2,}\n"},
		{"names only", point, []string{"struct point", "--names-only", "--compact"}, "{.x = ,.y = ,}\n"},
		{"json", point, []string{"struct point", "--json"}, "{\"x\":1,\"y\":2}\n"},
		{"json, zeroes", "\x00\x00\x00\x00\x00\x00\x00\x00", []string{"struct point", "--json", "--zeroes"}, "{\"x\":0,\"y\":0}\n"},
		{"verbose", point, []string{"struct point", "--verbose", "--indent", " "}, "(struct point){\n .x = (u32)1, /* 0 4 */\n .y = (u32)2, /* 4 4 */\n}\n"},
		{"big endian", "\x00\x00\x00\x05", []string{"u32", "--big-endian"}, "(u32)5\n"},
		{"array", point + point, []string{"struct point[2]", "--compact", "--no-types"}, "[{.x = 1,.y = 2,},{.x = 1,.y = 2,},]\n"},
		{"two dimensions", point + point, []string{"u32[2] [2]", "--compact"}, "(u32[2][2])[[1,2,],[1,2,],]\n"},
		{"pointer", point, []string{"struct point *"}, "(struct point *)0x200000001\n"},
		{"pointer to hidden", point, []string{"struct hidden**"}, "(struct hidden **)0x200000001\n"},
		{"void pointer", point, []string{"void *"}, "(void *)0x200000001\n"},
		{"pointer to constant", point, []string{"const void *"}, "(void *)0x200000001\n"},
		{"C's spelling", point, []string{"unsigned[2]", "--compact"}, "(unsigned int[2])[1,2,]\n"},
		{"qualifiers", point, []string{"const  volatile char *"}, "(char *)0x200000001\n"},
		{"readings", "\x11\x00\x80\x00eth0", []string{"struct named", "--readings", "--compact"}, "(struct named){.id = (dev_t)8:17,.name = (char[4])\"eth0\",}\n"},
		{"plain", "\x00\x00\x00\x00et\x00\x00", []string{"struct named", "--plain", "--compact"}, "(struct named){.name = (char[4])['e','t',],}\n"},
		{"behind a NUL", "\x00\x00\x00\x00\x00P\x00\x01", []string{"struct named", "--compact"}, "(struct named){.name = (char[4])\"\\x00P\\x00\\x01\",}\n"},
		{"behind a NUL, json", "\x00\x00\x00\x00\x00P\x00\x01", []string{"struct named", "--json"}, "{\"name\":\"\\u0000P\\u0000\\u0001\"}\n"},
		{"behind a NUL, diff", "\x00\x00\x00\x00\x00P\x00\x01", []string{"struct named", "--diff", writeFile(t, "older", []byte("\x00\x00\x00\x00\x00Q\x00\x01"))},
			".name: \"\\x00Q\\x00\\x01\" → \"\\x00P\\x00\\x01\"\n"},
		{"limits", point + point, []string{"u32[4]", "--compact", "--elements", "1"}, "(u32[4])[1,...]\n"},
		{"width", point, []string{"struct point", "--compact", "--width", "20"}, "(struct point){.x...\n"},
		{"depth", point, []string{"struct point[1]", "--compact", "--depth", "1", "--no-types"}, "[{...},]\n"},
		{"short", point[:6], []string{"struct point", "--compact"}, "(struct point){.x = (u32)1,...\n"},
		{"diff", point, []string{"struct point", "--diff", writeFile(t, "old", []byte("\x01\x00\x00\x00\x00\x03\x00\x00"))}, ".y: 768 → 2\n"},
		{"batch", "u32 05000000\n\n struct point  0100000002000000\n", []string{"--batch", "--compact"}, "(u32)5\n(struct point){.x = (u32)1,.y = (u32)2,}\n"},
		{"batch, lines", "struct point 0100000002000000\nu32 07000000", []string{"--batch"}, "(struct point){\n\t.x = (u32)1,\n\t.y = (u32)2,\n}\n(u32)7\n"},
		{"batch, file", "", []string{"--batch", "--json", writeFile(t, "batch", []byte("u32 05000000\n"))}, "5\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, notes, status := runPrint(tt.stdin, append(tt.args, "--btf", types)...)
			if out != tt.want || notes != "" || status != 0 {
				t.Errorf("status %d, %q\n got %s\nwant %s", status, notes, out, tt.want)
			}
		})
	}
}

func TestPrintFaults(t *testing.T) {
	types := printBTF(t)
	for _, tt := range []struct {
		stdin  string
		args   []string
		status int
		want   string
	}{
		{"", nil, 2, "no TYPE given"},
		{"", []string{"struct", "point", "-"}, 2, "quote a TYPE that has blanks"},
		{"", []string{"struct pint"}, 2, `there is no type "struct pint"`},
		{"", []string{"point"}, 2, `there is no type "point"; there is "struct point"`},
		{"", []string{"struct hidden"}, 2, "struct hidden cannot be printed: a type without values"},
		{"", []string{"u32[x]"}, 2, `"x" is no number of elements`},
		{"", []string{"u32[2"}, 2, `"u32[2": a closing "]" is missing`},
		{"", []string{"u32[2][3"}, 2, `"u32[2][3": a closing "]" is missing`},
		{"", []string{"u32["}, 2, `"u32[": a closing "]" is missing`},
		{"", []string{"u32[2]*"}, 2, `is not understood at "*"`},
		{"", []string{"u32[4294967295][4294967295]"}, 2, "too large"},
		{"", []string{"u32", "--compact", "--verbose"}, 2, "exclude each other"},
		{"", []string{"u32", "--json", "--compact"}, 2, "--json has no other form"},
		{"", []string{"u32", "--width", "-1"}, 2, "--width -1: it cannot be negative"},
		{"", []string{"u32", "--offset", "-1"}, 2, "--offset -1: it cannot be negative"},
		{"", []string{"u32", "--names-only", "--no-names"}, 2, "exclude each other"},
		{"", []string{"--batch", "--hex"}, 2, "--hex and --offset do not go with --batch"},
		{"", []string{"--batch", "--offset", "3"}, 2, "--hex and --offset do not go with --batch"},
		{"", []string{"u32", "."}, 1, "read .: is a directory"},
		{"", []string{"u32", "--offset", "1"}, 2, "beyond the 0 bytes"},
		{"0g", []string{"u32", "--hex"}, 2, `"0g" is not hexadecimal`},
		{"", []string{"u32", filepath.Join(t.TempDir(), "none")}, 1, "no such file"},
		{"", []string{"--batch", "a", "b"}, 2, "at most one FILE"},
		{"", []string{"--batch", "--diff", "a"}, 2, "exclude each other"},
		{"x 00\nu32\nu32 zz\nu32 01000000\n", []string{"--batch"}, 2, "ksnoop: line 1: there is no type \"x\"\n" +
			"ksnoop: line 2: \"u32\" is not TYPE HEX\nksnoop: line 3: \"zz\" is not hexadecimal\n3 of 4 lines could not be printed"},
		{"struct point\nu32 *\nu32 00\n", []string{"--batch"}, 2, "ksnoop: line 1: \"struct point\" lacks its bytes: a line is TYPE HEX\n" +
			"ksnoop: line 2: \"u32 *\" lacks its bytes: a line is TYPE HEX\n2 of 3 lines could not be printed"},
	} {
		_, notes, status := runPrint(tt.stdin, append(tt.args, "--btf", types)...)
		if status != tt.status || !strings.Contains(notes, tt.want) || strings.Contains(notes, "read .: read") {
			t.Errorf("%q: status %d, %q, want %d, %q", tt.args, status, notes, tt.status, tt.want)
		}
	}
}

// endless is a file without an end.
const endless = "/dev/zero"

// sparseFile is a file of 500 GB, zero behind its first bytes.
func sparseFile(t *testing.T, head string) string {
	t.Helper()
	name := writeFile(t, "sparse", []byte(head))
	if err := os.Truncate(name, 500<<30); err != nil {
		t.Skip(err)
	}
	return name
}

// TestPrintEndless has files that no memory holds. Of them what a value takes is
// read, or they are refused.
func TestPrintEndless(t *testing.T) {
	types := printBTF(t)
	sparse := sparseFile(t, "\x01\x00\x00\x00\x02\x00\x00\x00")
	for _, tt := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"struct point", endless}, 0, "(struct point){}\n"},
		{[]string{"struct point", sparse}, 0, "(struct point){.x = (u32)1,.y = (u32)2,}\n"},
		{[]string{"struct point", sparse, "--offset", "4"}, 0, "(struct point){.x = (u32)2,}\n"},
		{[]string{"u32", sparse, "--offset", "99999999999"}, 0, "(u32)0\n"},
		{[]string{"u32", sparse, "--offset", "536870912001"}, 2, "--offset 536870912001 is beyond the 536870912000 bytes of " + sparse},
		{[]string{"u32", endless, "--offset", "1000"}, 0, "(u32)0\n"},
		{[]string{"struct point", sparse, "--diff", endless}, 0, ".x: 0 → 1\n.y: 0 → 2\n"},
		{[]string{"u32[100000000]", endless}, 2, endless + ": the most that is read is 268435456 bytes, and there are more"},
		{[]string{"struct point", endless, "--hex"}, 2, endless + ": the most that is read is 16777216 bytes, and there are more"},
		{[]string{"--batch", endless}, 2, "line 1 is longer than 16777216 bytes"},
	} {
		out, notes, status := runPrint("", append(tt.args, "--btf", types, "--compact")...)
		if status != tt.status || out+notes != tt.want {
			t.Errorf("%q: status %d, %q %q, want %d, %q", tt.args, status, out, notes, tt.status, tt.want)
		}
	}
}

// TestListEndless: a list of SPECs ends.
func TestListEndless(t *testing.T) {
	for _, name := range []string{endless, sparseFile(t, "vfs_read\n")} {
		for _, args := range [][]string{{"@" + name}, {"-e", "@" + name}, {"vfs_read", "-d", "@" + name}} {
			stdout, stderr, status := ran(append([]string{"trace", "--dry-run"}, args...)...)
			if want := "ksnoop: reading a list of SPECs: " + name + ": a list may have 16777216 bytes, and there are more\n"; status != exitUsage || stdout != "" || stderr != want {
				t.Errorf("%q: status %d, %q", args, status, stderr)
			}
		}
	}
}

// TestListLong: lists that select more than a plan may have are refused before they are parsed.
func TestListLong(t *testing.T) {
	list := writeFile(t, "long", bytes.Repeat([]byte("vfs_read\n"), 300_000))
	for _, args := range [][]string{{"@" + list}, {"-e", "@" + list}, {"vfs_read", "-d", "@" + list}} {
		_, stderr, status := ran(append([]string{"trace", "--dry-run"}, args...)...)
		if want := "ksnoop: reading a list of SPECs: " + list + ": there may be 131072 SPECs, and there are more\n"; status != exitUsage || stderr != want {
			t.Errorf("%q: status %d, %q", args, status, stderr)
		}
	}
}
