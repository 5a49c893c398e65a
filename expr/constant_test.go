// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"bytes"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/errno"
	"github.com/ksnoop/ksnoop/internal/uapi"
)

// include/linux/errno.h as of Linux 6.12, without its guard and comments.
const linuxErrno = `
#define ERESTARTSYS	512
#define ERESTARTNOINTR	513
#define ERESTARTNOHAND	514
#define ENOIOCTLCMD	515
#define ERESTART_RESTARTBLOCK 516
#define EPROBE_DEFER	517
#define EOPENSTALE	518
#define ENOPARAM	519
#define EBADHANDLE	521
#define ENOTSYNC	522
#define EBADCOOKIE	523
#define ENOTSUPP	524
#define ETOOSMALL	525
#define ESERVERFAULT	526
#define EBADTYPE	527
#define EJUKEBOX	528
#define EIOCBQUEUED	529
#define ERECALLCONFLICT	530
#define ENOGRACE	531
`

func constantValue(t *testing.T, name string) (int64, bool) {
	t.Helper()
	o, ok := constant(name, runtime.GOARCH)
	if !ok {
		return 0, false
	}
	return int64(o.val.(*Const).V), true
}

func TestKernelErrnos(t *testing.T) {
	names := 0
	for line := range strings.Lines(linuxErrno) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			continue
		}
		names++
		want, err := strconv.ParseInt(fields[2], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := constantValue(t, fields[1]); !ok || got != want {
			t.Errorf("%s is %d, %v, want %d", fields[1], got, ok, want)
		}
		if name := errno.Name(uint64(want)); name != fields[1] {
			t.Errorf("%d is %q, want %q", want, name, fields[1])
		}
	}
	if names != 19 {
		t.Errorf("%d names compared, want 19", names)
	}
}

// The C compiler's headers are the oracle for what user space knows as well.
func TestUAPIConstants(t *testing.T) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("needs gcc: ", err)
	}
	cmd := exec.Command(gcc, "-E", "-dM", "-x", "c", "-")
	cmd.Stdin = strings.NewReader("#include <errno.h>\n#include <linux/if_ether.h>\n#include <linux/in.h>\n#include <linux/bpf_common.h>\n#include <linux/fcntl.h>\n#include <linux/sched.h>\n#include <linux/netlink.h>\n")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for line := range bytes.Lines(out) {
		fields := strings.Fields(string(line))
		if len(fields) < 3 || fields[0] != "#define" {
			continue
		}
		want, err := strconv.ParseInt(fields[2], 0, 64)
		if err != nil || len(fields) > 3 && fields[3] != "/*" {
			continue
		}
		got, ok := constantValue(t, fields[1])
		if !ok {
			if isErrno(fields[1]) {
				t.Errorf("no constant %s", fields[1])
			}
			continue
		}
		if compared++; got != want {
			t.Errorf("%s is %#x, in C %#x", fields[1], got, want)
		}
	}
	if compared < 250 {
		t.Errorf("only %d constants compared", compared)
	}
	t.Logf("%d constants compared", compared)
}

func isErrno(name string) bool {
	return len(name) > 2 && name[0] == 'E' && name[1] >= 'A' && name[1] <= 'Z' && !strings.ContainsRune(name, '_') && !strings.HasPrefix(name, "ETH")
}

// TestUnsignedLongConstants: constants of the headers that are negative as a long are so in C, or unsigned.
func TestUnsignedLongConstants(t *testing.T) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("needs gcc: ", err)
	}
	var code strings.Builder
	code.WriteString("#include <linux/resource.h>\n#include <linux/prctl.h>\n#include <linux/keyctl.h>\n#include <linux/fanotify.h>\n#include <linux/tcp.h>\n#include <linux/ethtool.h>\n")
	code.WriteString("#include <linux/watchdog.h>\n#include <linux/bpf_common.h>\n#include <linux/filter.h>\n#include <linux/net_namespace.h>\n")
	compared := 0
	for name := range uapi.Names(runtime.GOARCH) {
		if v, _ := uapi.Value(name, runtime.GOARCH); v < 0 {
			size, signed, _ := Number(constantType(t, name))
			kind := map[[2]int]string{{4, 1}: "int", {8, 1}: "long", {8, 0}: "unsigned long"}[[2]int{size, map[bool]int{true: 1}[signed]}]
			code.WriteString("#ifdef " + name + "\n_Static_assert(__builtin_types_compatible_p(__typeof__(" + name + "), " + kind + "), \"" + name + " is no " + kind + "\");\n#endif\n")
			compared++
		}
	}
	cmd := exec.Command(gcc, "-fsyntax-only", "-x", "c", "-")
	cmd.Stdin = strings.NewReader(code.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if compared < 20 {
		t.Errorf("only %d constants compared", compared)
	}
	if v, err := evaluate(t, "+((unsigned)-1 == RLIM_INFINITY)", typeInt, &fakeMachine{args: make([]uint64, 6)}); v != 0 || err != nil {
		t.Errorf("an unsigned int is RLIM_INFINITY: %d, %v", v, err)
	}
}

func constantType(t *testing.T, name string) btf.Type {
	t.Helper()
	o, ok := constant(name, runtime.GOARCH)
	if !ok {
		t.Fatal("no constant ", name)
	}
	return o.t
}
