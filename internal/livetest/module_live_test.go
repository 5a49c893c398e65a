// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// TestLiveModule traces functions of a module that testrun has the guest load,
// with types that only that module has: tun_chr_open gives each file a socket
// with the largest send buffer there is. Then the module goes while it is traced.
func TestLiveModule(t *testing.T) {
	guest.Require(t)
	const device = "/dev/net/tun"
	if _, err := os.Stat(device); err != nil {
		t.Fatal("the guest was booted without the module tun: ", err)
	}
	methods(t, func(t *testing.T, attach string) {
		work := []string{"--", "workload", "open", "-file", device, "-count", "2"}
		const file = "((struct tun_file *)file->private_data)->"
		out := traced(t, append([]string{"trace", attach, "tun_chr_close(" + file + "sk.sk_sndbuf == 0x7fffffff, " + file + "tx_ring.batch)"}, work...)...)
		if n := strings.Count(out, "sk.sk_sndbuf = (int)2147483647,"); n != 2 || records(out, "workload", "tun_chr_close") != 2 {
			t.Errorf("%d records of 2 calls:\n%s", n, out)
		}
		out = traced(t, append([]string{"trace", attach, "tun_chr_*[tun](file->f_op)"}, work...)...)
		for _, function := range []string{"tun_chr_open", "tun_chr_close"} {
			if n := records(out, "workload", function); n != 2 {
				t.Errorf("%d records of 2 calls of %s:\n%s", n, function, out)
			}
		}
		if n := strings.Count(out, " <tun_chr_ioctl [tun]>"); n < 4 {
			t.Errorf("%d times the name of the module's functions:\n%s", n, out)
		}
	})
	trace := startTrace(t, "--attach=kprobe", "tun_chr_open(return == 0)")
	if err := exec.Command("workload", "open", "-file", device, "-count", "1").Run(); err != nil {
		t.Fatal(err)
	}
	if err := unix.DeleteModule("tun", unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	if err := trace.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	out, status := trace.wait(t)
	if n := records(out, "workload", "tun_chr_open"); n != 1 || status != 0 {
		t.Errorf("%d records of 1 call before the module went, status %d:\n%s", n, status, out)
	}
	_, errs, status := ksnoop(t, "trace", "tun_chr_open", "--", "true")
	if want := fmt.Sprintf("no function is called %q", "tun_chr_open"); status != exitUsage || !strings.Contains(errs, want) {
		t.Errorf("without the module: status %d: %s", status, errs)
	}
}
