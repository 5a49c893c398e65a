// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/ksnoop/ksnoop/internal/livetest"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// section returns the rows of the first section with that title in a record,
// offsets and what follows them left out.
func section(out, title string) []string {
	_, rest, ok := strings.Cut(out, "\n        "+title+":\n")
	if !ok {
		return nil
	}
	rest, _, _ = strings.Cut(rest, "\n\n")
	var names []string
	for _, row := range strings.Split(rest, "\n") {
		name, _, _ := strings.Cut(strings.TrimSpace(row), "+0x")
		names = append(names, name)
	}
	return names
}

// A read(2) gets to vfs_read in one way, which the kernel's source tells:
// ksys_read is the only function between it and the system call.
func TestLiveStack(t *testing.T) {
	guest.Require(t)
	const want = "ksys_read " + syscallEntry
	methods(t, func(t *testing.T, attach string) {
		for _, spec := range []string{
			"vfs_read(count == 33)",               // at entry
			"vfs_read(return == 33)",              // at return
			"vfs_read(count == 33, return == 33)", // at return, stashed
			"vfs_read(count == 33, return)",       // both
		} {
			out := traced(t, append([]string{"trace", attach, "-s", "none", "--stack", spec}, quiet("read -size 33 -count 3")...)...)
			// In the 6.12 kernel the system call's own function, and a switch
			// over all of them, are not inlined.
			re := regexp.MustCompile(`(?m)^ *(\S+) +\d+ +\d+ +\S+ vfs_read\((?s:.*?)^\);`)
			seen := 0
			for _, record := range re.FindAllString(out, -1) {
				if !strings.HasPrefix(strings.TrimSpace(record), "workload ") {
					continue
				}
				got := section(record, "stack")
				if got == nil && spec == "vfs_read(count == 33, return)" {
					continue // the second record of a call
				}
				seen++
				text := " " + strings.Join(got, " ") + " "
				for _, function := range strings.Fields(want) {
					before, after, ok := strings.Cut(text, " "+function+" ")
					if !ok || strings.TrimSpace(before) != "" && function == "ksys_read" {
						t.Errorf("%s: stack %v, want %s", spec, got, want)
						break
					}
					text = " " + after
				}
			}
			if seen != 3 {
				t.Errorf("%s: %d stacks of 3 calls:\n%s", spec, seen, out)
			}
		}
		out := traced(t, append([]string{"trace", attach, "-s", "none", "--caller", "vfs_read(return == 33)"}, quiet("read -size 33 -count 1")...)...)
		if got := section(out, "caller"); len(got) != 1 || got[0] != "ksys_read" {
			t.Errorf("caller %v:\n%s", got, out)
		}
	})
}

// The stacks of programs whose functions are known: one in Go, linked to where
// it runs, and one in C, moved to a random address.
func TestLiveUserStack(t *testing.T) {
	guest.Require(t)
	methods(t, func(t *testing.T, attach string) {
		out := traced(t, "trace", attach, "--ustack", "-c", "3", "-n", "frames", "vfs_read(count == 33)", "--", "sh", "-c", fmt.Sprintf("sleep %.0f | frames 5", livetest.Patience(2*time.Second).Seconds()))
		re := regexp.MustCompile(`frames_read\+0x[0-9a-f]+ \(/bin/frames\)
            frames_inner\+0x[0-9a-f]+ \(/bin/frames\)
            frames_outer\+0x[0-9a-f]+ \(/bin/frames\)
            main\+0x[0-9a-f]+ \(/bin/frames\)
`)
		if n := len(re.FindAllString(out, -1)); n != 3 {
			t.Errorf("%d right stacks of 3:\n%s", n, out)
		}
		out = traced(t, append([]string{"trace", attach, "--ustack", "-c", "3", "vfs_read(count == 1)"}, quiet("pipe-wait -for 300ms -count 10")...)...)
		line := ` \(/bin/workload\)  \(\S+:\d+\)\n` // the program has its debug info
		re = regexp.MustCompile(`(?s)user stack:.*golang.org/x/sys/unix.read\S+` + line + `.* main\.\S*pipeWaitCase\S+` + line +
			`.* main\.main\S+` + line + ` *runtime\.main\S+` + line + ` *runtime\.goexit\S+` + line)
		for _, record := range strings.Split(strings.TrimSpace(out), "\n);\n") {
			if !re.MatchString(record + "\n") {
				t.Errorf("not the stack of the workload:\n%s", record)
			}
		}
	})
}

// A task of the kernel has no user stack, and the record says so.
func TestLiveNoUserStack(t *testing.T) {
	guest.Require(t)
	out := traced(t, "trace", "--ustack", "-c", "1", "process_one_work(work)")
	if !strings.Contains(out, "\n        user stack: none\n") {
		t.Errorf("printed\n%s", out)
	}
}

// A program without frame pointers, which has ended before ksnoop looks at it: below 60 calls of a
// function, and below 3 in a signal handler. A copy of 512 bytes is too short for the 60, and the
// record says so.
func TestLiveUserStackUnwound(t *testing.T) {
	guest.Require(t)
	end := `main\+0x[0-9a-f]+ \(/bin/nopointer\)\n(?: .*\n)*? +_start\+0x[0-9a-f]+ \(/bin/nopointer\)\n`
	row := ` +%s\+0x[0-9a-f]+ \(/bin/nopointer\)\n`
	stack := func(deep int) string {
		return `user stack:\n +\S*read\+0x\w+ \(/bin/nopointer\)\n(?:` + fmt.Sprintf(row, "nopointer_deep") + fmt.Sprintf("){%d}", deep)
	}
	methods(t, func(t *testing.T, attach string) {
		out := traced(t, "trace", attach, "--ustack=dwarf", "--latency", "1s", "vfs_read(count == 33)", "--", "nopointer", "60")
		if !regexp.MustCompile(stack(60) + " +" + end).MatchString(out) {
			t.Errorf("not the stack below 60 calls:\n%s", out)
		}
		if !regexp.MustCompile(stack(3) + fmt.Sprintf(row, "on_signal") + `(?: .*\n)*? +` + end).MatchString(out) {
			t.Errorf("not the stack of the signal handler:\n%s", out)
		}
	})
	// A recording shows the same, wherever it is replayed: the guest's programs are not looked at.
	file := filepath.Join(t.TempDir(), "calls")
	live := traced(t, "trace", "--ustack=dwarf", "--record", file, "--print", "vfs_read(count == 33)", "--", "nopointer", "60")
	if again := traced(t, "replay", file); again != live || !regexp.MustCompile(stack(60)+" +"+end).MatchString(again) {
		t.Errorf("the replay shows\n%s\nlive it was\n%s", again, live)
	}
	out, said, _ := ksnoop(t, "trace", "--ustack=dwarf,512", "--format", "json", "vfs_read(count == 33)", "--", "nopointer", "60")
	if strings.Count(out, `"user_stack_end":"the rest of the stack was not copied"`) != 2 || !strings.Contains(out, `"short_stack":2`) || !strings.Contains(said, "2 user stacks that are deeper") {
		t.Errorf("nothing says that the copy was too short:\n%s", out)
	}
}

// TestLiveProbedReturns: the return probes of a function that calls itself have put their own address in the place of its return
// addresses. The kernel has the right ones, of which the newest 16 are taken.
func TestLiveProbedReturns(t *testing.T) {
	guest.Require(t)
	row := `\n +nopointer_deep\+0x[0-9a-f]+ \(/bin/nopointer\)`
	file := filepath.Join(t.TempDir(), "calls")
	for _, c := range []struct {
		deep int
		want string
	}{
		{10, "(?:" + row + `){10}\n +main\+0x[0-9a-f]+ \(/bin/nopointer\)(?:\n .*)*\n +_start\+0x[0-9a-f]+ \(/bin/nopointer\)\n\n`},
		{60, "(?:" + row + `){17}\n +\.\.\. behind a return probe, of which there are too many\n`},
	} {
		want := regexp.MustCompile(`user stack:\n +\S*read\+0x\w+ \(/bin/nopointer\)` + c.want)
		out := traced(t, "trace", "--ustack=dwarf", "--record", file, "--print", "--force", "uretprobe:/bin/nopointer:nopointer_deep(return)", "vfs_read(count == 33)", "--", "nopointer", fmt.Sprint(c.deep))
		if !want.MatchString(out) {
			t.Errorf("below %d calls:\n%s", c.deep, out)
		}
		if again := traced(t, "replay", file); again != out {
			t.Errorf("the replay shows\n%s\nlive it was\n%s", again, out)
		}
	}
}

// TestLiveGeneratedCode: code that a process generates has the names of its map, which is below the process's own root, though
// the process has ended before anything is printed: alone, and in a PID namespace of its own.
func TestLiveGeneratedCode(t *testing.T) {
	guest.Require(t)
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "tmp"), 0o755); err != nil {
		t.Fatal(err)
	}
	generated := fmt.Sprintf("generated -root %s -for %v", root, livetest.Patience(300*time.Millisecond))
	named := regexp.MustCompile(`user stack:\n +generated_read\+0x[0-9a-f]+ \(/tmp/perf-\d+\.map\)\n`)
	file := filepath.Join(t.TempDir(), "calls")
	for _, how := range []string{"--ustack", "--ustack=dwarf"} {
		for _, namespace := range []string{"", "unshare -p -f "} {
			out := traced(t, "trace", how, "--latency", "1s", "--record", file, "--print", "--force", "vfs_read(count == 33)", "--", "sh", "-c", namespace+"workload "+generated)
			if !named.MatchString(out) {
				t.Errorf("%s, %s:\n%s", how, namespace, out)
			}
			if again := traced(t, "replay", file); !named.MatchString(again) {
				t.Errorf("%s, %s, replayed:\n%s", how, namespace, again)
			}
		}
	}
}

// TestLiveSessionUserStack: below the kernel's stack a session has that of the process, which has ended: by frame
// pointers, as each way of attaching takes it, and unwound, also in a recording.
func TestLiveSessionUserStack(t *testing.T) {
	guest.Require(t)
	row := `\n +%s\+0x[0-9a-f]+ \(/bin/%s\)`
	frames := regexp.MustCompile(`user stack:` + fmt.Sprintf(row, "frames_read", "frames") + fmt.Sprintf(row, "frames_inner", "frames") + fmt.Sprintf(row, "frames_outer", "frames") + fmt.Sprintf(row, "main", "frames"))
	methods(t, func(t *testing.T, attach string) {
		out := traced(t, "trace", attach, "-s", "none", "-S", "-T", "--ustack", "-n", "frames", "-e", "ksys_read(count == 33)", "-a", "vfs_read", "--", "sh", "-c", "frames 5 </dev/null")
		if n := len(frames.FindAllString(out, -1)); n != 5 {
			t.Errorf("%d right stacks of 5:\n%s", n, out)
		}
	})
	deep := regexp.MustCompile(` ksys_read(?:.*\n)+\n +user stack:\n +\S*read\+0x\w+ \(/bin/nopointer\)(?:` + fmt.Sprintf(row, "nopointer_deep", "nopointer") + `){60}` + fmt.Sprintf(row, "main", "nopointer") + `(?:\n .*)*` + fmt.Sprintf(row, "_start", "nopointer") + `\n`)
	file := filepath.Join(t.TempDir(), "sessions")
	live := traced(t, "trace", "-s", "none", "-S", "--ustack=dwarf", "--record", file, "--print", "-e", "ksys_read(count == 33)", "-a", "vfs_read", "--", "nopointer", "60")
	if !deep.MatchString(live) || strings.Count(live, "user stack:") != 2 {
		t.Errorf("not the stack below 60 calls, and that of a signal handler:\n%s", live)
	}
	if again := traced(t, "replay", file); again != live {
		t.Errorf("the replay shows\n%s\nlive it was\n%s", again, live)
	}
	if out := traced(t, "replay", "--format", "json", file); strings.Count(out, `"user_stack":[{"addr":`) != 2 || strings.Count(out, `"text":"nopointer_deep+`) != 63 {
		t.Errorf("as JSON:\n%s", out)
	}
}

// TestLiveSessionNoBuffer: if there is no buffer for the stack of the process, the session is shown, and it says so.
func TestLiveSessionNoBuffer(t *testing.T) {
	guest.Require(t)
	for _, how := range []string{"--ustack", "--ustack=dwarf"} {
		r := startSessions(t, "-s", "none", "-S", how, "-n", "frames", "-c", "5", "-e", "ksys_read(count == 33)")
		occupyBuffers(t)
		if out, err := exec.Command("sh", "-c", "frames 5 </dev/null").CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		out, status := r.wait(t)
		if status != 0 || strings.Count(out, "user stack: none (-EBUSY)\n") != 5 || strings.Contains(r.errs.String(), "lost") {
			t.Errorf("%s: status %d\n%s\n%s", how, status, out, r.errs.String())
		}
	}
}

// occupyBuffers has all buffers for records with a tail in use, for good.
func occupyBuffers(t *testing.T) {
	t.Helper()
	found := 0
	for id := ebpf.MapID(0); ; found++ {
		next, err := ebpf.MapGetNextID(id)
		if errors.Is(err, os.ErrNotExist) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if id = next; !occupy(t, id) {
			found--
		}
	}
	if found != 1 {
		t.Fatalf("%d maps of buffers, want one", found)
	}
}

// occupy is occupyBuffers for a map. It reports whether it is one of buffers.
func occupy(t *testing.T, id ebpf.MapID) bool {
	t.Helper()
	m, err := ebpf.NewMapFromID(id)
	if errors.Is(err, os.ErrNotExist) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	info, err := m.Info()
	if err != nil {
		t.Fatal(err)
	}
	if info.Name != "scratches" {
		return false
	}
	for key := range m.MaxEntries() {
		value, err := m.LookupBytes(key)
		if err != nil {
			t.Fatal(err)
		}
		binary.NativeEndian.PutUint64(value, 1) // struct scratch begins with what is not 0 while it is in use
		if err := m.Put(key, value); err != nil {
			t.Fatal(err)
		}
	}
	return true
}
