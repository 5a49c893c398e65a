// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bufio"
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/ksnoop/ksnoop/bpf"
)

// TestRecords: the engine is told where a process has the pointer to its context records. The program says it, too.
func TestRecords(t *testing.T) {
	const sources = "../threadctx/testdata/"
	dir := t.TempDir()
	program, library := filepath.Join(dir, "main"), filepath.Join(dir, "libpublish.so")
	for _, c := range []struct {
		cc       string
		commands [][]string
		want     bpf.ThreadAccess
	}{
		{"gcc", [][]string{{"-rdynamic", "-o", program, sources + "main.c", sources + "publish.c"}}, bpf.ThreadStatic},
		{"gcc", [][]string{{"-DLOADED", "-o", program, sources + "main.c", "-ldl"}, {"-shared", "-fPIC", "-o", library, sources + "publish.c"}}, bpf.ThreadGlibc},
		{"musl-gcc", [][]string{{"-DLOADED", "-o", program, sources + "main.c"}, {"-shared", "-fPIC", "-o", library, sources + "publish.c"}}, bpf.ThreadMusl},
		{"gcc", [][]string{{"-o", program, sources + "main.c", sources + "publish.c"}}, bpf.ThreadNone}, // not among its dynamic symbols
	} {
		if _, err := exec.LookPath(c.cc); err != nil {
			t.Log(err)
			continue
		}
		for _, args := range c.commands {
			if out, err := exec.Command(c.cc, append(args, "-pthread")...).CombinedOutput(); err != nil {
				t.Skipf("%v\n%s", err, out)
			}
		}
		checkRecords(t, exec.Command(program, library, "wait"), c.want)
	}
}

func checkRecords(t *testing.T, cmd *exec.Cmd, want bpf.ThreadAccess) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	line, err := bufio.NewReader(out).ReadString('\n')
	var address, pointer int64
	if err == nil {
		_, err = fmt.Sscanf(line, "0x%x 0x%x", &address, &pointer)
	}
	if err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	times := 0
	p := newPrograms(bpf.ParentThread, func(pid int, _ uint32, got bpf.SpanPlace) error {
		times++
		if got.Access != want || (got.Again == 0) != (want != bpf.ThreadNone) || (got.Module != 0) != (want == bpf.ThreadGlibc || want == bpf.ThreadMusl) {
			t.Errorf("%+v, want access %d", got, want)
		}
		if want == bpf.ThreadStatic && got.Thread != address-pointer {
			t.Errorf("it is at %d from the thread pointer, want %d", got.Thread, address-pointer)
		}
		return nil
	}, slog.New(slog.DiscardHandler))
	for range 3 { // what is asked for several times at once is answered once
		p.look(t.Context(), asked{pid: cmd.Process.Pid})
	}
	if times != 1 {
		t.Errorf("the engine is told %d times", times)
	}
}
