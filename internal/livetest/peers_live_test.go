// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// Faults of tools of this kind, by number, and the tests that show we have none
// of them. Those marked * are rows of TestLivePeers.
//
//	bcc's ksnoop                                     test
//	 1 nothing printed for functions with ENDBR      every live test with kprobes
//	 2 int results compared as unsigned              *
//	 3 one unreadable value drops the record         *, TestLiveWholeCall
//	 4 bitfields read as the whole byte              exprfuzz.TestLiveAgree, btfprint
//	 5 an assignment taken for a comparison          *
//	 6 nested and migrated calls lost                TestLiveStashNested, TestLiveStashThreads, TestLiveRecursion
//	 7 ten parameters hang info                      *
//	 8 unaligned enums                               btfprint.TestOracle
//	 9 void pointers, flexible arrays, const char *  TestLiveStrings, btfprint
//	10 -p is a thread, -p abc no filter              *, TestLiveProcesses
//	11 .isra.0 not found, inlined calls in silence   TestLiveCopies, TestLiveDebugInfoInlined
//	12 const lost in signatures                      *
//
//	bpfsnoop                                         test
//	 1 sign of a narrow argument lost                *
//	 2 constants cut to 32 bits                      *
//	 3 a small struct read from its parent's start   *
//	 4 an element of an array shown as an address    *
//	 5 || true for NULL on the way                   exprfuzz.TestLiveAgree, exprfuzz.TestLiveTraps
//	 6 a mistyped name switches a filter off         *
//	 7 of several filters one counts                 TestLiveReturn
//	 8 entry predicate read after the call           *
//	 9 user pointers shown as 0                      TestLiveWholeCall, TestLiveStrings
//	10 durations wrap at 4.29 s                      *
//	11 losses in silence                             TestLiveFlood
//	12 a pointer compared with NULL refused          *
//	13 a bad prefix spins for ever                   *
//	14 idle tasks share one key                      session.TestJoin
//	15 time stamps of processing                     TestLivePeerTimes
//	16 structs that look like JSON and are not       btfprint's tests of JSON
func TestLivePeers(t *testing.T) {
	guest.Require(t)
	for _, c := range []struct {
		fault, spec, work string
		want              int
		shows             string
	}{
		{"bcc 2", "inet_stream_connect(return < 0)", "connect-refused", 1, "return = (int)-111 /* -ECONNREFUSED */"},
		{"bcc 2", "inet_stream_connect(return > 0)", "connect-refused", 0, ""},
		{"bcc 3", openFunction() + `(pathname->name == "/no/such/file", return == -ENOENT, *return)`, "open-missing -count 2", 2, "Cannot show '*return'"},
		{"bpfsnoop 1", `do_sys_openat2(dfd < 0, ustr(filename) == "/no/such/file")`, "open-missing -count 2", 2, "dfd = (int)-100"},
		{"bpfsnoop 1", `do_sys_openat2(dfd > 0, ustr(filename) == "/no/such/file")`, "open-missing -count 2", 0, ""},
		{"bpfsnoop 2", "vfs_read(count == 0x100000040)", "read -size 64", 0, ""},
		{"bpfsnoop 4", "loopback_xmit(dev->name[0] == 'l', dev->name[1])", "udp-send -count 1", 1, "dev->name[1] = (char)111"},
		{"bpfsnoop 8", "vfs_read(count == 73, *pos == 73, return == 73)", "read -file /bin/workload -size 73 -count 3", 1, ""},
		{"bpfsnoop 10", "vfs_read(count == 1, $duration > 5s, $duration < 1h)", "pipe-wait -for 5s", 1, ""},
		{"bpfsnoop 12", `vfs_open(path->dentry != NULL, path->dentry->d_name.name == "zero")`, "open -file /dev/zero", 1, ""},
	} {
		out, errs, status := ksnoop(t, append([]string{"trace", c.spec, "--", "workload"}, strings.Fields(c.work)...)...)
		function, _, _ := strings.Cut(c.spec, "(")
		if n := records(out, "workload", function); n != c.want || status != 0 || !strings.Contains(out, c.shows) {
			t.Errorf("%s: %s on %s: %d records, want %d and %q:\n%s%s", c.fault, c.spec, c.work, n, c.want, c.shows, out, errs)
		}
	}
	for _, c := range []struct {
		fault, args, want string
		status            int
	}{
		{"bcc 5", "trace ip_send_skb(skb->len=99)", "==", exitUsage},
		{"bcc 7", "info ip_append_data", "unsigned int flags", 0},
		{"bcc 10", "trace -p abc vfs_read", "abc", exitUsage},
		{"bcc 12", "info vfs_write", "const char * buf", 0},
		{"bpfsnoop 6", "trace vfs_read(cuont==1)", `count`, exitUsage},
		{"bpfsnoop 13", "trace (", "fault in the SPEC", exitUsage},
	} {
		out, errs, status := ksnoop(t, strings.Fields(c.args)...)
		if status != c.status || !strings.Contains(out+errs, c.want) {
			t.Errorf("%s: %s: status %d, want %d and %q:\n%s%s", c.fault, c.args, status, c.status, c.want, out, errs)
		}
	}
}

// TestLivePeerStructs is about bpfsnoop's fault 3: the user of a file is a struct
// of 4 bytes that does not lie first in struct cred.
func TestLivePeerStructs(t *testing.T) {
	guest.Require(t)
	trace := startTrace(t, "--uid", "65534", "-c", "1", `vfs_open(path->dentry->d_name.name == "zero", file->f_cred->uid)`)
	work := exec.Command("workload", "open", "-file", "/dev/zero")
	work.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65533}}
	if err := work.Run(); err != nil {
		t.Fatal(err)
	}
	if err := trace.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if out, _ := trace.wait(t); !strings.Contains(out, "65534") || strings.Contains(out, "65533") {
		t.Errorf("not the user of the file:\n%s", out)
	}
}

// TestLivePeerTimes: two calls that are 300 ms apart say so although they are
// printed together.
func TestLivePeerTimes(t *testing.T) {
	guest.Require(t)
	out := traced(t, "trace", "--latency", "10s", "vfs_read(count == 1, return == 1)", "--", "workload", "pipe-wait", "-count", "2", "-for", "300ms")
	times := regexp.MustCompile(`(\d+\.\d{6}) vfs_read`).FindAllStringSubmatch(out, -1)
	if len(times) != 2 {
		t.Fatalf("%d records, want 2:\n%s", len(times), out)
	}
	first, _ := strconv.ParseFloat(times[0][1], 64)
	second, _ := strconv.ParseFloat(times[1][1], 64)
	if second-first < 0.3 {
		t.Errorf("at %v and %v: less than 300 ms apart", first, second)
	}
}

// openFunction is what takes the name of a file to open, an error pointer where
// there is none: Linux 7 has given it another name.
func openFunction() string {
	const old = "do_filp_open"
	if _, ok := kernel.Open(os.DirFS("/")).SymbolNamed(old, ""); ok {
		return old
	}
	return "do_file_open"
}
