// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/livetest"
	"github.com/ksnoop/ksnoop/internal/record"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// TestLiveRedact: what is redacted is in no record, neither of calls nor of sessions with all
// arguments. Predicates still see it.
func TestLiveRedact(t *testing.T) {
	guest.Require(t)
	const secret = "a-secret-name"
	for i, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"--redact", "ustr(*", `do_sys_openat2(ustr(filename) ~ "*secret*", ustr(filename), how->mode == 0, return < 0)`},
			[]string{"ustr(filename) = <redacted>", "how->mode = (__u64)0", ")-2 /* -ENOENT */"}},
		{[]string{"--types-only", `do_sys_openat2(ustr(filename) ~ "*secret*", dfd, return)`}, []string{"dfd = <redacted>", "return = <redacted>"}},
		{[]string{"-A", "-s", "none", "--redact", "*name", "-e", "do_sys_openat2", "-a", "do_fil*_open", "-x", "ENOENT"},
			[]string{"filename=<redacted>", "dfd=-100"}},
	} {
		if !livetest.Mine(t, i) {
			continue
		}
		file := recordingFile(t)
		args := append([]string{"trace", "--record", file, "--force", "--print"}, c.args...)
		out, errs, status := ksnoop(t, append(args, "--", "sh", "-c", "cat /tmp/"+secret+" 2>/dev/null; true")...)
		if status != 0 || errs != "" && !strings.HasPrefix(errs, "Receiving data...") {
			t.Errorf("%v: status %d: %s", c.args, status, errs)
		}
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%v: %q is not in\n%s", c.args, want, out)
			}
		}
		replay, _, _ := replayed(t, file)
		if strings.Contains(out, secret) || replay != out {
			t.Errorf("%v: printed\n%s\nreplayed\n%s", c.args, out, replay)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r, err := record.NewReader(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for raw, err := range r.Records() {
			if err != nil {
				t.Fatal(err)
			}
			if n++; bytes.Contains(raw, []byte(secret)) {
				t.Errorf("%v: record %d has it", c.args, n)
			}
		}
		if n == 0 {
			t.Errorf("%v: no records", c.args)
		}
	}
	if _, errs, status := ksnoop(t, "trace", "--redact", "file", "vfs_read(count)"); status != exitUsage || !regexp.MustCompile(`--redact file matches nothing that is captured: there are (\$uid, \$cgroup, \$container, \$pod, )?count\n`).MatchString(errs) { // a recording has these, too
		t.Errorf("a glob that matches nothing: status %d: %s", status, errs)
	}
}
