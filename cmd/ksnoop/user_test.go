// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestUserFlag(t *testing.T) {
	types := typesFile(t)
	for _, c := range []struct{ args, want string }{
		{"--user nobody vfs_read", "ksnoop: --user goes with -- COMMAND"},
		{"--user no-such-user vfs_read -- true", `ksnoop: --user "no-such-user": there is no such user`},
		{"--user 4294967295 vfs_read -- true", `ksnoop: --user "4294967295": there is no such user`},
		{"--user 0:no-such-group vfs_read -- true", `ksnoop: --user "0:no-such-group": there is no such group`},
		{"--user= vfs_read -- true", "ksnoop: --user is given an empty word"},
		{"--user root vfs_read --", "ksnoop: no command after --"},
	} {
		stdout, stderr, status := ran(append([]string{"--dry-run", "--btf", types}, strings.Fields(c.args)...)...)
		if status != exitUsage || stdout != "" || !strings.HasPrefix(stderr, c.want) {
			t.Errorf("%s: status %d, stdout %q, stderr %q", c.args, status, stdout, stderr)
		}
	}
	for _, user := range []string{"root", "0", "4000000000", "1000:1000"} {
		if _, stderr, status := ran("--dry-run", "--btf", types, "--user", user, "vfs_read", "--", "true"); status != 0 || stderr != "" {
			t.Errorf("%s: status %d, stderr %q", user, status, stderr)
		}
	}
}
