// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/livetest"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// TestLiveWhy: the call is named by which a command fails, although others of it fail, too. The
// command keeps its exit status, and is told apart from one that succeeds.
func TestLiveWhy(t *testing.T) {
	guest.Require(t)
	for i, tt := range []struct {
		args   []string
		want   string // a regular expression; "": nothing is printed
		errs   string
		status int
	}{
		{[]string{"--once", "--", "mount", "-t", "tmpfs", "-o", "size=foo", "none", "/tmp"}, `^mount failed: invalid argument\n    mount\("none", "/tmp", "tmpfs", 0x8000, "size=foo"\) = -EINVAL\n    by mount\[\d+\], in a command with exit status 255; chosen since mount wrote "mount: mounting none on /tmp failed: Invalid argument"\n`,
			"", 255},
		{[]string{"--once", "--", "/etc/passwd"}, `^execve failed: permission denied\n    execve\("/etc/passwd", 0x\w+, 0x\w+\) = -EACCES\n    by ksnoop\[\d+\], in a command with exit status 126; chosen since \w+ wrote "ksnoop: /etc/passwd: permission denied"\n`, "", 126},
		{[]string{"--", "sh", "-c", "kill -KILL $$"}, `^sh\[\d+\] was killed by the signal SIGKILL: no system call was refused for it\n`, "", 137},
		// The kernel delivers SIGKILL for these, too, but for SIGSEGV.
		{[]string{"--", "sh", "-c", "kill -TERM $$"}, `^sh\[\d+\] was killed by the signal SIGTERM: no system call was refused for it\n`, "", 143},
		{[]string{"--", "sh", "-c", "kill -SEGV $$"}, `^sh\[\d+\] was killed by the signal SIGSEGV: no system call was refused for it\n`, "", 139},
		// busybox executes /proc/self/exe to be sleep, and may be killed before.
		{[]string{"--", "sh", "-c", "sleep 9 & kill -ALRM $!; wait $!"}, `^(sh|exe|sleep)\[\d+\] was killed by the signal SIGALRM: no system call was refused for it\n`, "", 142},
		{[]string{"--once", "--", "sh", "-c", "ls /nosuch; kill -KILL $$"}, `= -ENOENT\n    by ls\[\d+\], in a command with exit status 137; chosen since ls wrote`, "] was killed by the signal SIGKILL\n", 137},
		{[]string{"--once", "--", "sh", "-c", "ulimit -f 1; exec head -c 100000 /dev/zero > /tmp/limited"}, `= -EFBIG\n    by head\[\d+\], in a command with exit status 153; chosen since head\[\d+\] was killed by the signal SIGXFSZ, which that call has brought\n`, "", 153},
		{[]string{"--once", "--syscall", "clock_nanosleep", "--", "timeout", "1", "sleep", "5"}, `^interrupted by the signal SIGTERM$`, "", 143},
		{[]string{"--", "true"}, ``, "the command succeeded, and none of its system calls ", 0},
		{[]string{"--", "sh", "-c", "exit 4"}, ``, " has failed: the command has decided so", 4},
		{[]string{"--", "sh", "-c", "sleep 5 >/dev/null 2>&1 & exit 4"}, ``, "ksnoop: 1 process that the command has started goes on: ", 4},
		// No system call fails: the error is in a message.
		{[]string{"--once", "--", "ip", "link", "add", "foo", "type", "nosuch"}, `^netlink failed: operation not supported\n    netlink\(RTM_NEWLINK, 0x\w+, \d+\) = -EOPNOTSUPP\n(    the answer of the kernel says "Unknown device type"\n)?    by ip\[\d+\], in a command with exit status \d+; chosen since ip wrote "ip: RTNETLINK answers: `, "", 2},
		{[]string{"-s", "none", "--", "workload", "no-family", "-fail"}, `^netlink failed: no such file or directory\n    netlink\(0x10, 0x5, \d+\) = -ENOENT\n    by workload\[\d+\], in a command with exit status 1; chosen since workload wrote "workload no-family: .*(.*\n)+refused in ctrl_getfamily(.*\n)+            decided`,
			"", 1},
		// Both return NULL, and the error stands in memory.
		{[]string{"-s", "none", "--", "workload", "no-qdisc", "-fail"}, `^netlink failed: no such file or directory\n    netlink\(RTM_NEWQDISC, 0x605, \d+\) = -ENOENT\n(.*\n)+refused in qdisc_create; it returned NULL, with the error in \*errp \(.*(.*\n)+            decided`, "", 1},
		{[]string{"-s", "none", "--syscall", "accept4", "--", "workload", "refuse", "accept4"}, `^refused in inet_csk_accept; it returned NULL, with the error in arg->err (.*\n)+            decided: sk->__sk_common.skc_state \(7\) != 10, at inet_csk_accept\+0x`, "", 0},
		// The kernel lets nobody probe __do_sys_getpriority (amd64): what find_task_by_vpid has returned decides.
		{[]string{"-s", "none", "--", "renice", "-n", "5", "-p", "99999"}, `^refused in __(do|x64|arm64)_sys_getpriority(.*\n)+            decided: find_task_by_vpid\(\) \(NULL\) == NULL, at __(do|arm64)_sys_getpriority\+0x`, "", 1},
		// Nor any function of lib/: kstrtoull (kstrtoul) has refused the number.
		{[]string{"-s", "none", "--", "sh", "-c", "echo -5 > /sys/class/net/lo/mtu"}, `^refused in or below kstrtoull, on which the kernel lets nobody put a probe, called by mtu_store (.*\n)+            it returns what kstrtoull\(\) has returned, -EINVAL`, "", 1},
		// __do_sys_mlockall neither.
		{[]string{"-s", "none", "--syscall", "mlockall", "--", "workload", "refuse", "mlockall"}, `^refused in __(do|x64)_sys_mlockall(.*\n)+            decided: .*flags.*, at __(do|x64)_sys_mlockall\+0x`, "", 0},
	} {
		if slices.Contains(tt.args, "mlockall") && runtime.GOARCH != "amd64" {
			continue // one instruction compares two pairs there
		}
		if !livetest.Mine(t, i) {
			continue
		}
		out, errs, status := printedOnce(t, "ksnoop", append([]string{"why"}, tt.args...)...)
		if status != tt.status || !regexp.MustCompile("(?m)"+tt.want).MatchString(out) || (tt.want == "") != (out == "") || !strings.Contains(errs, tt.errs) {
			t.Errorf("%q: status %d:\n%s%s", tt.args, status, out, errs)
		}
	}
}

// TestLiveWhyNetfilter: a request of nfnetlink is explained that has failed within a batch.
func TestLiveWhyNetfilter(t *testing.T) {
	guest.Require(t)
	if _, err := os.Stat("/sys/module/nf_tables"); err != nil {
		for _, name := range []string{"libcrc32c", "nfnetlink", "nf_tables"} { // each needs those before it
			file, err := os.Open("/lib/modules/" + name + ".ko")
			if errors.Is(err, os.ErrNotExist) {
				continue // of this kernel it is none
			}
			if err != nil {
				t.Fatal(err)
			}
			err = unix.FinitModule(int(file.Fd()), "", 0)
			_ = file.Close()
			if err == nil {
				t.Cleanup(func() { _ = unix.DeleteModule(name, unix.O_NONBLOCK) })
			} else if !errors.Is(err, unix.EEXIST) {
				t.Fatalf("module %s: %v", name, err)
			}
		}
	}
	if _, err := os.Stat("/sys/module/nf_tables"); err != nil {
		t.Skip("the guest has no module nf_tables: ", err)
	}
	out, errs, status := printedOnce(t, "ksnoop", "why", "-s", "none", "--", "workload", "no-chain", "-fail")
	want := regexp.MustCompile(`^no-chain result=-ENOENT\nnetlink failed: no such file or directory\n    netlink\(0xa06, 0xc01, \d+\) = -ENOENT\n    by workload\[\d+\], in a command with exit status 1; chosen since workload wrote "workload no-chain: .*\n(.*\n)*` +
		`refused in nft_chain_lookup(\.isra\.0)?\[nf_tables\] (.*\n)+ .*\[-ENOENT\]  nf_tables_newrule\+0x\w+ \[nf_tables\]\n`)
	if status != 1 || !want.MatchString(out) {
		t.Errorf("status %d:\n%s%s", status, out, errs)
	}
}

// TestLiveWhyRecord: the function that refuses a file without permission is generic_permission, for
// want of a capability, for which why runs the command again. What it has recorded prints the same page, byte for byte and as JSON, without
// running anything, and each of its runs can be looked at.
func TestLiveWhyRecord(t *testing.T) {
	guest.Require(t)
	file := filepath.Join(t.TempDir(), "why.ks")
	page, errs, status := printedOnce(t, "ksnoop", "why", "-s", "none", "--record", file, "--syscall", "openat", "--", "workload", "refuse", "openat")
	_, page, _ = strings.Cut(page, "\n") // what the command prints
	want := regexp.MustCompile(`^openat failed: permission denied\n    openat\(0, "/tmp/\w+/file", 2, 0\) = -EACCES\n.*\n    called by:\n(        .*\n)*        main.call\+0x\w+ .*\n        main.refuseCase(.*\n)+for want of the capability CAP_DAC_OVERRIDE\nrefused in generic_permission \(\d more runs?\):\n(.*\n)+.*\[-EACCES\]  __(x64|arm64)_sys_openat(.*\n)+    generic_permission\(.*mask = .*\n        path:.*\n            in generic_permission: passed (.*\n)+    openat\(AT_FDCWD, "`)
	if status != 0 || !want.MatchString(page) {
		t.Fatalf("status %d:\n%s%s", status, page, errs)
	}
	again, errsAgain, status := printedOnce(t, "ksnoop", "replay", file)
	if again != page || errsAgain != errs || status != 0 {
		t.Errorf("replay: status %d:\n%s%swant:\n%s%s", status, again, errsAgain, page, errs)
	}
	line, _, status := printedOnce(t, "ksnoop", "replay", "--format", "json", file)
	if err := schemaOfLines(t).Check(strings.TrimSuffix(line, "\n")); err != nil || status != 0 {
		t.Errorf("JSON: status %d, %v:\n%s", status, err, line)
	}
	for run, want := range map[string]string{"1": `sys_exit\(`, "2": `(?m)\[-EACCES\]  __(x64|arm64)_sys_openat`} {
		out, errs, status := printedOnce(t, "ksnoop", "replay", "--run", run, file)
		if status != 0 || !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("run %s: status %d:\n%s%s", run, status, out, errs)
		}
	}
	if _, errs, status := printedOnce(t, "ksnoop", "replay", "--run", "99", file); status != 2 || !strings.Contains(errs, "--run 99: there are ") {
		t.Errorf("status %d: %s", status, errs)
	}
}

// TestLiveWhyProcess: a process that goes on is looked at as it fails again and again, and goes on
// unharmed. One that ends is told from one that does not fail.
func TestLiveWhyProcess(t *testing.T) {
	guest.Require(t)
	loop := exec.Command("sh", "-c", "while kill -0 $$; do kill -0 99999; usleep 50000; done 2>/dev/null")
	if err := loop.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- loop.Wait() }()
	out, errs, status := printedOnce(t, "ksnoop", "why", "-s", "none", "-p", strconv.Itoa(loop.Process.Pid), "--errno", "ESRCH")
	want := regexp.MustCompile(`^kill failed: no such process\n    kill\(\w+, 0\) = -ESRCH\n    by sh\[\d+\]; chosen since (.*\n)+refused in kill_\w+ \(\d more failures?\):\n(.*\n)+.*\[-ESRCH\]  __(x64|arm64)_sys_kill(.*\n)+    kill_\w+\(`)
	if status != 0 || !want.MatchString(out) {
		t.Errorf("status %d:\n%s%s", status, out, errs)
	}
	select {
	case err := <-ended:
		t.Error("the process has ended:", err)
	default:
	}
	if err := loop.Process.Kill(); err != nil {
		t.Error(err)
	}
	<-ended
	short := exec.Command("sleep", "2")
	if err := short.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { ended <- short.Wait() }()
	_, errs, status = printedOnce(t, "ksnoop", "why", "-p", strconv.Itoa(short.Process.Pid), "--syscall", "mount")
	<-ended
	if status != 1 || !regexp.MustCompile(`has ended: no system call (as asked for )?has failed\n|ended before ksnoop listened\n`).MatchString(errs) {
		t.Errorf("status %d: %s", status, errs)
	}
}

// TestLiveWhyCauses: errors that no function has made of itself are named as what they are.
func TestLiveWhyCauses(t *testing.T) {
	guest.Require(t)
	rule := `filter 2 of 2 returns SECCOMP_RET_ERRNO\|EDOM at instruction 4, since args\[1\] \(0x0\) == 0x0 at 3`
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err != nil || strings.HasPrefix(string(release), "6.1.") {
		rule += "|by which rule is not known: filters are read when their thread ends" // here after its parent has waited for it
	}
	killed := "system call umount" // which is what the function is called that serves umount2
	if runtime.GOARCH == "arm64" {
		killed = "system call 39"
	}
	for i, tt := range []struct {
		args, want string
		status     int
	}{
		{"--once --errno EDOM -- workload refuse seccomp", `(?m)^refused by seccomp[:;] (` + rule + `)$`, 0},
		{"--once --syscall ppoll -- env GODEBUG=asyncpreemptoff=1 workload refuse signal", `(?m)^interrupted by the signal SIGUSR1, for which it has a handler; the program sees EINTR$`, 0},
		{"-- workload refuse seccomp-kill", `^workload\[\d+\] was killed by the signal SIGSYS: seccomp has refused its ` + killed + `\n`, 128 + int(unix.SIGSYS)},
		{"-s none --errno EPERM --user 1000 -- sh -c kill${IFS}-9${IFS}1;true", `(?m)^for want of the capability CAP_KILL\nrefused in check_kill_permission (.*\n)+            decided: ns_capable\(\) \(0\) == 0, at .*\n            it takes: ns_capable\(\) != 0\n            tested after that: sig \(9\) != 18, at `, 0},
		{"-s none --syscall pipe2 -- workload refuse pipe2-fault", `(?m)^a fault: the kernel cannot read or write the memory at 0x8, where the parameter fildes points to\nrefused in do_pipe2 `, 0},
	} {
		if !livetest.Mine(t, i) {
			continue
		}
		out, errs, status := printedOnce(t, "ksnoop", append([]string{"why"}, strings.Fields(tt.args)...)...)
		if status != tt.status || !regexp.MustCompile(tt.want).MatchString(out) {
			t.Errorf("%s: status %d:\n%s%s", tt.args, status, out, errs)
		}
	}
}

// smallProgram makes an executable file for a machine and returns its name. The code is loaded where code is told.
func smallProgram(t *testing.T, class elf.Class, machine elf.Machine, code func(at uint32) []byte) string {
	t.Helper()
	const base = 0x400000
	const eabi5 = 5 << 24 // without it the kernel takes no program for arm; of i386 it does not matter
	ident := [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(class), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)}
	header, segment := elf.Header64{Ident: ident, Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT), Phnum: 1}, elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Vaddr: base, Align: 0x1000}
	header.Ehsize, header.Phentsize = uint16(binary.Size(header)), uint16(binary.Size(segment))
	header.Phoff, header.Entry = uint64(header.Ehsize), base+uint64(header.Ehsize)+uint64(header.Phentsize)
	text := code(uint32(header.Entry))
	segment.Filesz = uint64(int(header.Ehsize) + int(header.Phentsize) + len(text))
	segment.Memsz = segment.Filesz
	parts := []any{header, segment, text}
	if class == elf.ELFCLASS32 {
		header, segment := elf.Header32{Ident: ident, Type: header.Type, Machine: header.Machine, Version: header.Version, Flags: eabi5, Phnum: 1}, elf.Prog32{Type: segment.Type, Flags: segment.Flags, Vaddr: base, Align: 0x1000}
		header.Ehsize, header.Phentsize = uint16(binary.Size(header)), uint16(binary.Size(segment))
		header.Phoff, header.Entry = uint32(header.Ehsize), base+uint32(header.Ehsize)+uint32(header.Phentsize)
		text = code(header.Entry)
		segment.Filesz = uint32(int(header.Ehsize) + int(header.Phentsize) + len(text))
		segment.Memsz = segment.Filesz
		parts = []any{header, segment, text}
	}
	var file bytes.Buffer
	for _, part := range parts {
		if err := binary.Write(&file, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	name := filepath.Join(t.TempDir(), "small")
	if err := os.WriteFile(name, file.Bytes(), 0o700); err != nil {
		t.Fatal(err)
	}
	return name
}

// smallCalls are programs that make the same calls on every machine: of eventfd2 with a bad flag by its number among 32-bit calls,
// with a message about it, and of setsid, which fails and has no parameters.
type smallCalls struct {
	class   elf.Class
	machine elf.Machine
	code    func(at uint32) []byte
	number  int // of the 32-bit call; 0: it is setsid
}

// TestLiveWhySmall: a 32-bit system call is not taken for the 64-bit one of its number, whatever program makes it. One without
// parameters is shown without any, whatever the registers hold.
func TestLiveWhySmall(t *testing.T) {
	guest.Require(t)
	for _, c := range smallPrograms {
		want, said := `^setsid failed: operation not permitted\n    setsid\(\) = -EPERM\n(.*\n)+refused in ksys_setsid`, ""
		if c.number != 0 {
			want = fmt.Sprintf(`^32-bit system call %[1]d failed: invalid argument\n    32-bit system call %[1]d\(0, 0xdead, 0, 0, 0, 0\) = -EINVAL\n    by small\[\d+\], in a command with exit status 1; chosen since small wrote "small: eventfd2: Invalid argument"\n`, c.number)
			said = "the call is a 32-bit system call: the function that refuses one is not looked for\n"
		}
		out, errs, status := printedOnce(t, "ksnoop", "why", "-s", "none", "--", smallProgram(t, c.class, c.machine, c.code))
		if status != 1 || !regexp.MustCompile(want).MatchString(out) || !strings.Contains(errs, said) {
			t.Errorf("%v: status %d:\n%s%s", c.machine, status, out, errs)
		}
	}
}
