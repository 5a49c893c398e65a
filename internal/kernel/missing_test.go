// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"testing"
	"testing/fstest"
)

func TestMissing(t *testing.T) {
	files := fakeKernel(t, "ip_rcv\nip_send_skb\n")
	for name, text := range map[string]string{
		"proc/sys/kernel/osrelease":            "6.12.0\n",
		modulesDir + "/6.12.0/modules.builtin": "kernel/net/ipv6/ip-v6.ko\n",
		modulesDir + "/6.12.0/modules.dep":     "kernel/fs/xfs/xfs.ko.xz: kernel/lib/crc.ko\nkernel/lib/crc.ko:\nkernel/mod.ko:\n",
		modulesDir + "/6.12.0/modules.symbols": "# Aliases\nalias symbol:xfs_exported xfs\nalias symbol:mod_export mod\n",
		"sys/module/mod/refcnt":                "0\n",
	} {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	v := Open(files)
	for _, test := range []struct{ glob, module, want string }{
		{"ip_snd_skb", "", `did you mean "ip_send_skb"?`},
		{"no_btf", "", `"no_btf" is there, but the kernel lets nobody trace it (notrace, for boot only, or a part of the probes themselves)`},
		{"tw*", "", `"twice" and 1 more are there, but the kernel lets nobody trace them (notrace, for boot only, or a part of the probes themselves)`},
		{"xfs_exported", "", "the module xfs is not loaded: modprobe xfs"},
		{"xfs_ex*", "", "the module xfs is not loaded: modprobe xfs"},
		{"anything*", "xfs", "the module xfs is not loaded: modprobe xfs"},
		{"anything*", "ip_v6", "ip_v6 is built into this kernel: leave out [ip_v6]"},
		{"mod_export", "", ""}, // loaded, and yet there is no such function
		{"anything*", "mod", "the module mod is loaded, and has no function of that name"},
		{"x", "ext4", "no module ext4 is loaded"},
		{"ip_send_skb", "xfs", `"ip_send_skb" is in vmlinux: leave out the brackets`},
		{"ip_send_skb", "ip_v6", "ip_v6 is built into this kernel: leave out [ip_v6]"},
		{"mod_probe", "xfs", `did you mean "mod_probe[mod]"?`},
		{"nothing*", "", ""},
	} {
		if got := v.Missing(test.glob, test.module).Hint(); got != test.want {
			t.Errorf("Missing(%q, %q): %q, want %q", test.glob, test.module, got, test.want)
		}
	}
}

// The system calls' functions have several names of which ftrace lists one.
func TestMatchAlias(t *testing.T) {
	files := fakeKernel(t, "__do_sys_getppid\n")
	files[kallsymsFile] = &fstest.MapFile{Data: []byte("ffffffff81000ab0 t __do_sys_getppid\nffffffff81000ab0 T __ia32_sys_getppid\n" +
		"ffffffff81000ab0 T __x64_sys_getppid\nffffffff81000ac0 T __x64_sys_other\n")}
	funcs, err := Open(files).Match("__x64_sys_*", "")
	if got := list(funcs); err != nil || got != "__x64_sys_getppid@ab0" {
		t.Errorf("Match = %s, %v", got, err)
	}
}
