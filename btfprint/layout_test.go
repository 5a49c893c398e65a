// SPDX-License-Identifier: Apache-2.0

package btfprint

import (
	"hash/crc32"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
)

// ignoredLayout matches what pahole says beyond the layout of one type.
var ignoredLayout = regexp.MustCompile(`^(/\* --- cacheline|/\* Bitfield combined|/\* XXX last struct|/\* Force |/\* paddings|/\* bit_paddings|/\* forced|/\* BRAIN|/\* member types|[a-z_ 0-9]*:\d+;$|\w+\s+= -?\d+,$)|^$`)

var (
	totalsLine  = regexp.MustCompile(`^\t/\* (size|last cacheline): `)
	anyTotals   = regexp.MustCompile(`/\* (size|last cacheline|sum members|sum bitfield members|padding|bit_padding): `)
	attributes  = regexp.MustCompile(`\s*__attribute__\(\(\w+(\(\d+\))?\)\)`)
	memberLine  = regexp.MustCompile(`^(.*?)\s*/\*\s*(\d+)(:\s*(\d+))?\s+(\d+) \*/$`)
	memberName  = regexp.MustCompile(`(\w*)(\)\(.*\)|\)|\[\d*\])*(\[\d*\])*(:\d+)?;$`)
	pointerName = regexp.MustCompile(`\(\*+\s*(?:const )?(\w+)`)
)

// layouts splits C text into its types, or a sample of them, and reduces each
// to what is said about members and holes: `name offset:bit size` and the comments.
func layouts(text string) map[string][]string {
	keep := true
	types := make(map[string][]string)
	var name string
	var lines []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.HasSuffix(line, " {") && !strings.HasPrefix(line, "\t") {
			name, lines = strings.TrimSuffix(line, " {"), nil
			keep = soak() || crc32.ChecksumIEEE([]byte(name))%8 == 0
			continue
		}
		if !keep {
			continue
		}
		if strings.HasPrefix(line, "}") {
			types[name] = append(types[name], strings.Join(lines, "\n"))
			continue
		}
		if strings.HasPrefix(line, "\t\t") && anyTotals.MatchString(line) {
			continue // pahole has totals for nested types that are const
		}
		if strings.HasPrefix(name, "union") && totalsLine.MatchString(line) {
			continue // pahole has no totals for unions
		}
		if line = attributes.ReplaceAllString(strings.TrimSpace(line), ""); !ignoredLayout.MatchString(line) {
			lines = append(lines, layoutLine(line))
		}
	}
	return types
}

func layoutLine(line string) string {
	m := memberLine.FindStringSubmatch(line)
	if m == nil {
		return line
	}
	name := ""
	if n := pointerName.FindStringSubmatch(m[1]); n != nil {
		name = n[1]
	} else if n := memberName.FindStringSubmatch(m[1]); n != nil {
		name = n[1]
	}
	return name + " " + m[2] + ":" + m[4] + " " + m[5]
}

// TestPahole compares the layout of every type that pahole prints with that of
// AppendType.
func TestPahole(t *testing.T) {
	if _, err := exec.LookPath("pahole"); err != nil {
		t.Skip("pahole is not installed")
	}
	for _, file := range kernelBTF(t) {
		out, err := exec.Command("pahole", "-F", "btf", file).Output()
		if err != nil {
			t.Fatalf("pahole: %v", err)
		}
		spec, err := btf.LoadSpec(file)
		if err != nil {
			t.Fatal(err)
		}
		var text []byte
		for typ, err := range spec.All() {
			if err != nil {
				t.Fatal(err)
			}
			switch typ.(type) {
			case *btf.Struct, *btf.Union:
				if typ.TypeName() != "" {
					text = append(AppendType(text, typ, TypeOptions{}), '\n')
				}
			}
		}
		theirs, ours := layouts(string(out)), layouts(string(text))
		if len(theirs) < 500 {
			t.Fatalf("pahole printed %d types only", len(theirs))
		}
		bad := 0
		for name, blocks := range theirs {
			for _, want := range blocks {
				if slices.Contains(ours[name], want) {
					continue
				}
				if bad++; bad <= 10 {
					t.Errorf("%s:\n%s", name, firstDifference(strings.Join(ours[name], "\n-----\n"), want))
				}
			}
		}
		t.Logf("%s: %d types, %d different", file, len(theirs), bad)
	}
}
