// SPDX-License-Identifier: Apache-2.0

package examples

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
)

func needGuest(t *testing.T) {
	t.Helper()
	if os.Getenv("KSNOOP_GUEST") == "" {
		t.Skip("needs a guest, see internal/vm")
	}
}

// TestLivePredicate: the workload says how many calls meet the predicate.
func TestLivePredicate(t *testing.T) {
	needGuest(t)
	for spec, want := range map[string]string{
		"vfs_read(count == 77 && (file->f_flags & 3) == 0, file->f_inode->i_size > 0 || $comm == \"workload\")": "9",
		"vfs_read(count == 77, $comm ~ \"nobody*\")":                                                            "0",
		"vfs_read(count == 77, file->f_path.dentry->d_parent == NULL)":                                          "0",
	} {
		cmd := exec.Command("predicate", spec, "3s")
		var out bytes.Buffer
		cmd.Stdout = &out
		stderr, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		said := bufio.NewScanner(stderr)
		if !said.Scan() || said.Text() != "counting" {
			t.Fatalf("%s: %s", spec, said.Text())
		}
		if text, err := exec.Command("workload", "read", "-count", "9", "-size", "77").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSpace(out.String()); got != want {
			t.Errorf("%s: %s calls, want %s", spec, got, want)
		}
	}
}

// TestLiveMapValues prints a map whose contents the test knows.
func TestLiveMapValues(t *testing.T) {
	needGuest(t)
	number := &btf.Int{Name: "unsigned int", Size: 4}
	value := &btf.Struct{Name: "route", Size: 12, Members: []btf.Member{
		{Name: "metric", Type: number},
		{Name: "dev", Type: &btf.Array{Index: number, Type: &btf.Int{Name: "char", Size: 1, Encoding: btf.Signed}, Nelems: 8}, Offset: 32}}}
	m, err := ebpf.NewMap(&ebpf.MapSpec{Name: "routes", Type: ebpf.Hash, KeySize: 4, ValueSize: 12, MaxEntries: 4, Key: number, Value: value})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := m.Put(uint32(7), []byte("\x64\x00\x00\x00eth0\x00\x00\x00\x00")); err != nil {
		t.Fatal(err)
	}
	info, err := m.Info()
	if err != nil {
		t.Fatal(err)
	}
	id, _ := info.ID()
	out, err := exec.Command("mapvalues", fmt.Sprint(id)).CombinedOutput()
	const want = "(unsigned int)7: (struct route){.metric = (unsigned int)100,.dev = (char[8])\"eth0\",}\n"
	if err != nil || string(out) != want {
		t.Errorf("%v: %q, want %q", err, out, want)
	}
}

// TestLiveTrace: the example prints the calls that the workload makes, and ends when it is
// interrupted.
func TestLiveTrace(t *testing.T) {
	needGuest(t)
	cmd := exec.Command("trace", "vfs_read(count == 79, return > 0)")
	var out bytes.Buffer
	cmd.Stdout = &out
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewScanner(stderr)
	if !said.Scan() || !strings.HasPrefix(said.Text(), "tracing vfs_read by ") {
		t.Fatalf("%s", said.Text())
	}
	if text, err := exec.Command("workload", "read", "-count", "9", "-size", "79").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if said.Scan() { // a loss
		t.Error(said.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "] vfs_read(count = 79, return = 79)\n"); n != 9 || strings.Count(out.String(), "\n") != 9 {
		t.Errorf("%d calls, want 9:\n%s", n, out.String())
	}
}
