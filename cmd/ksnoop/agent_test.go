// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// written writes a configuration.
func written(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "agent.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestAgentFile: requests are refused that trace would refuse, and those that an agent cannot run.
func TestAgentFile(t *testing.T) {
	for _, c := range []struct{ requests, want string }{
		{"  a: {specs: [vfs_read], otlp: 'http://localhost:4318', rate: 100/s, pid: [1, 2], stack: true, every: 5s}", ""},
		{"  a: {entry: do_sys_openat2, only-errors: [EACCES], record: /var/x, rotate: 10M, keep: 2}", ""},
		{"  a: {preset: fs, trace: true, output: /var/x, force: true, format: json, cgroup: /not/there/yet}", ""},
		{"  a: {specs: [vfs_read]}", "2:3: request a: it has no output: give otlp, record or output"},
		{"  a: {otlp: 'http://localhost:4318'}", "2:3: request a: no specs are given, and no entry or preset"},
		{"  a: {specs: [vfs_read], record: /x}", "2:26: request a: --record makes one new file, and a request that is begun again needs another: add rotate and keep, or force to replace it"},
		{"  a: {specs: [vfs_read], output: /x}", "2:26: request a: --output makes one new file, and a request that is begun again finds it there: add force to replace it"},
		{"  a: {specs: [vfs_read], record: /x, rotate: 1}", "2:38: request a: --rotate 1: give a size from 1M to 1024G, as 100M"},
		{"  a: {specs: [vfs_read], record: /x, rotate: 9M}\n  b: {specs: [vfs_read], record: //x/, rotate: 9M}", "3:3: request b: request a writes to /x, too"},
		{"  a: {specs: ['@list'], output: /x, force: true}", "2:3: request a: @list: lists of SPECs in other files are not read, since a reload could not tell whether they changed"},
		{"  a: {specs: [-p], output: /x, force: true}", "2:3: request a: -p is no SPEC; options are keys of the request"},
		{"  a: {specs: [vfs_read], output: /x, force: true, dry-run: true}", "2:51: a request has no dry-run: a request traces; ksnoop agent --check says what is wrong with it"},
		{"  a: {specs: [vfs_read], output: /x, force: true, config: a=b}", `2:51: there is no key "config"`},
		{"  a: {specs: [vfs_read], output: /x, force: true, case: fs}", `2:51: there is no key "case"`},
		{"  a: {specs: [vfs_read], output: /x, force: true, rate: 5/x}", "2:51: request a: --rate 5/x: not a rate; write 100/s, 20/m or 5/h"},
		{"  a: {specs: [vfs_read], output: /x, force: true, for: soon}", `2:56: --for "soon": write a time with its unit, such as 10ms, 1.5s or 5m`},
		{"  a: {specs: [vfs_read], output: /x, force: true, allow: [vfs_write]}", "2:3: request a: -a goes with -e: which functions open a session"},
		{"  a: {specs: [vfs_read(count ==)], output: /x, force: true}", `2:32: unexpected ")"; a value is missing after "=="`},
	} {
		f := agentFlags{file: written(t, "requests:\n"+c.requests+"\n")}
		_, err := f.read()
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.requests, err)
		case c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), f.file+":"+c.want) || statusOf(err) != exitUsage):
			t.Errorf("%s:\n%v, want\n%s", c.requests, err, c.want)
		}
	}
	dir := agentFlags{file: t.TempDir()}
	if _, err := dir.read(); err == nil || statusOf(err) != exitUsage {
		t.Errorf("a directory: %v", err)
	}
}

// TestAgentKeys: a request takes every option of trace that --help lists, but for those that say why not; what the
// help calls repeatable may be a list.
func TestAgentKeys(t *testing.T) {
	r := newAgentRequests()().(*agentRequest)
	for name := range notInAgent {
		if name != "help" && r.lookup(name) == nil {
			t.Errorf("trace has no --%s, about which the agent says something", name)
		}
	}
	r.command.Flags().VisitAll(func(flag *pflag.Flag) {
		if flag.Hidden || notInAgent[flag.Name] != "" {
			return
		}
		k, err := r.Key(flag.Name)
		if err != nil {
			t.Errorf("%s: %v", flag.Name, err)
		}
		if repeatable := strings.HasSuffix(flag.Usage, "(repeatable)"); repeatable != k.Repeatable {
			t.Errorf("%s: a list: %v, but the help says: %s", flag.Name, k.Repeatable, flag.Usage)
		}
	})
}
