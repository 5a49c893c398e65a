// SPDX-License-Identifier: Apache-2.0

package btfprint

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
)

// testBytes are bytes that depend on the id of a type and on nothing else. The
// program in testdata/oracle.c makes the same.
func testBytes(id btf.TypeID, size int, sparse bool) []byte {
	s := uint64(id)*0x9E3779B97F4A7C15 + 0x0123456789ABCDEF
	if s == 0 {
		s = 1
	}
	next := func() uint64 {
		s ^= s << 13
		s ^= s >> 7
		s ^= s << 17
		return s
	}
	data := make([]byte, 0, size+8)
	for len(data) < size {
		r := next()
		switch {
		case !sparse:
			data = binary.LittleEndian.AppendUint64(data, r)
		case r&15 == 0:
			data = append(data, byte(r>>8))
		default:
			data = append(data, 0)
		}
	}
	return data[:size]
}

func TestBytes(t *testing.T) {
	if got := hex.EncodeToString(testBytes(1, 16, false)); got != "90a715f1689f280fdf68d20090a86d08" {
		t.Errorf("testBytes(1) = %s", got)
	}
}

// oracle is a running program that prints values by libbpf.
type oracle struct {
	in  io.WriteCloser
	out *bufio.Reader
}

// startOracle builds and starts the program, or skips the test.
func startOracle(tb testing.TB, btfFile string, args ...string) *oracle {
	tb.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		tb.Skip("no gcc to build the libbpf oracle with")
	}
	exe := filepath.Join(tb.TempDir(), "oracle")
	if out, err := exec.Command(gcc, "-O2", "-Wall", "-o", exe, "testdata/oracle.c", "-lbpf").CombinedOutput(); err != nil {
		if strings.Contains(string(out), "bpf/btf.h") || strings.Contains(string(out), "-lbpf") {
			tb.Skip("libbpf-dev is not installed")
		}
		tb.Fatalf("build oracle: %v\n%s", err, out)
	}
	cmd := exec.Command(exe, append([]string{btfFile}, args...)...)
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			tb.Errorf("oracle: %v", err)
		}
	})
	return &oracle{in, bufio.NewReaderSize(out, 1<<20)}
}

// libbpf numbers types that share a name.
var numbered = regexp.MustCompile(`___[0-9]+\b`)

// dump asks for many values. The requests are written while answers are read.
func (o *oracle) dump(tb testing.TB, ids []btf.TypeID, request string, each func(id btf.TypeID, text string, err int)) {
	tb.Helper()
	go func() {
		w := bufio.NewWriter(o.in)
		for _, id := range ids {
			fmt.Fprintf(w, "%d %s\n", id, request)
		}
		w.Flush()
		o.in.Close()
	}()
	for _, id := range ids {
		var result, length int
		line, err := o.out.ReadString('\n')
		if err != nil {
			tb.Fatalf("oracle at type %d: %v", id, err)
		}
		if _, err := fmt.Sscanf(line, "%d %d", &result, &length); err != nil {
			tb.Fatalf("oracle says %q: %v", line, err)
		}
		text := make([]byte, length+1)
		if _, err := io.ReadFull(o.out, text); err != nil {
			tb.Fatalf("oracle at type %d: %v", id, err)
		}
		each(id, string(text[:length]), result)
	}
}

// TestLibbpf compares with libbpf, through the model: model with faults equals
// libbpf, model without equals Printer.
func TestLibbpf(t *testing.T) {
	for _, file := range kernelBTF(t) {
		spec, err := btf.LoadSpec(file)
		if err != nil {
			t.Fatal(err)
		}
		ids := composites(t, spec)
		for _, tt := range []struct {
			name, request string
			model         model
			o             ValueOptions
		}{
			{"default", "full -", model{}, ValueOptions{}},
			{"compact", "full c", model{compact: true}, ValueOptions{Mode: Compact}},
			{"no names", "full n", model{noNames: true}, ValueOptions{Hide: HideTypes | HideNames}},
			{"zeroes", "full z", model{zeroes: true}, ValueOptions{ShowZeroes: true}},
			{"sparse", "sparse z", model{zeroes: true}, ValueOptions{ShowZeroes: true}},
			{"sparse default", "sparse -", model{}, ValueOptions{}},
		} {
			t.Run(tt.name, func(t *testing.T) {
				compareLibbpf(t, file, spec, ids, tt.request, tt.model, tt.o)
			})
		}
	}
}

func compareLibbpf(t *testing.T, file string, spec *btf.Spec, ids []btf.TypeID, request string, m model, o ValueOptions) {
	var same, faulty, bad int
	sparse := strings.HasPrefix(request, "sparse")
	o.Plain = true
	startOracle(t, file, "dump").dump(t, ids, request, func(id btf.TypeID, theirs string, result int) {
		typ, err := spec.TypeByID(id)
		if err != nil {
			t.Fatal(err)
		}
		raw := testBytes(id, sizeof(typ), sparse)
		theirs = numbered.ReplaceAllString(theirs, "")

		like := model{faults: allFaults, compact: m.compact, noNames: m.noNames, zeroes: m.zeroes}
		if got, _ := like.run(typ, raw); got != theirs {
			if bad++; bad <= 3 {
				t.Errorf("type %d %v: the model is not libbpf:\n%s", id, typ, firstDifference(got, theirs))
			}
		}
		right := model{compact: m.compact, noNames: m.noNames, zeroes: m.zeroes}
		want, err := right.run(typ, raw)
		if err != nil {
			t.Errorf("type %d %v: %v", id, typ, err)
		}
		p, err := Compile(typ, binary.LittleEndian)
		if err != nil {
			t.Errorf("type %d: %v", id, err)
			return
		}
		if got := string(p.AppendValue(nil, raw, &o)); got != want {
			if bad++; bad <= 3 {
				t.Errorf("type %d %v:\n%s", id, typ, firstDifference(got, want))
			}
		}
		if want == theirs {
			same++
		} else {
			faulty++
		}
	})
	t.Logf("%d types: %d equal to libbpf as it is, %d to libbpf without its faults, %d different", len(ids), same, faulty, bad)
}

// firstDifference shows the lines around the first byte in which two texts differ.
func firstDifference(got, want string) string {
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	clip := func(s string) string { return s[max(0, i-120):min(len(s), i+120)] }
	return fmt.Sprintf("at byte %d\n got …%s…\nwant …%s…", i, clip(got), clip(want))
}
