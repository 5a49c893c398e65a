// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"
)

// TestRetsnoopOptions has retsnoop's options (src/env.c of v0.11) and what must
// become of them: "option=value" of ksnoop, and the words that are left.
func TestRetsnoopOptions(t *testing.T) {
	for _, c := range []struct{ args, want, left string }{
		{"--call-stack f", "call-stack=true", "f"},
		{"-E -T f", "call-stack=true trace=true", "f"},
		{"--case bpf", "", ""},
		{"--no-comm x --no-pid 7 f", "not-comm=[x] not-pid=[7]", "f"},
		{"--success-stacks f", "success=true", "f"},
		{"-S f", "success=true", "f"},
		{"-S=y f", "success=true", "f"},
		{"-S=n f", "success=false", "f"},
		{"--success-stacks=n f", "success=false", "f"},
		{"--interim-stacks f", "interim=true", "f"},
		{"--inject-probe rawtp:x f", "inject=[rawtp:x]", "f"},
		{"--allow-errors EINVAL --deny-errors ENOMEM f", "only-errors=[EINVAL] except-errors=[ENOMEM]", "f"},
		{"--kernel v f", "vmlinux=v", "f"},
		{"--kprobes-multi f", "attach=multi", "f"},
		{"--attach kprobe.multi f", "attach=multi", "f"},
		{"--attach=kprobe.session f", "attach=session", "f"},
		{"-C bpf.ringbuf-size=8388608 -C bpf.sessions-size=4096 f", "ringbuf=8388608 sessions=4096", "f"},
		{"-C stacks.symb-mode=linenum f", "symbolize=line", "f"},
		{"-C stacks.symb-mode=I f", "symbolize=inlines", "f"},
		{"--config stacks.unfiltered=y f", "full-stacks=true unfiltered=true", "f"},
		{"-C args.fmt-mode=m -C fmt.lbr-max-count=5 f", "args=multiline lbr-max=5", "f"},
		{"-C stacks.emit-addrs=y -C args.fmt-max-arg-width=0 f", "verbose=true args-width=0", "f"},
		// -s alone is line, and takes no word that is none of its own.
		{"-s f", "symbolize=line", "f"},
		{"-s", "symbolize=line", ""},
		{"f -s", "symbolize=line", "f"},
		{"-Ts f", "trace=true symbolize=line", "f"},
		{"-ss f", "symbolize=inlines", "f"},
		{"-sn f", "symbolize=none", "f"},
		{"-s none f", "symbolize=none", "f"},
		{"-s -T f", "symbolize=line trace=true", "f"},
		{"--symbolize f", "symbolize=line", "f"},
		{"--symbolize=none f", "symbolize=none", "f"},
		{"f -- ls -s none", "symbolize=inlines", "f ls -s none"},
		{"-n bus f", "comm=[bus]", "f"},
	} {
		for _, command := range []string{"", "trace "} {
			status := 0
			root := newRootCommand(&status)
			args := withLevels(root, strings.Fields(command+c.args))
			cmd, args, err := root.Find(args)
			if err == nil {
				err = cmd.ParseFlags(args)
			}
			if err != nil {
				t.Errorf("%s: %v", c.args, err)
				continue
			}
			for _, want := range strings.Fields(c.want) {
				name, value, _ := strings.Cut(want, "=")
				got := cmd.Flags().Lookup(name).Value.String()
				if got != value {
					t.Errorf("%s: --%s is %q, want %q", c.args, name, got, value)
				}
			}
			if left := strings.Join(cmd.Flags().Args(), " "); left != c.left {
				t.Errorf("%s: %q is left, want %q", c.args, left, c.left)
			}
		}
	}
	for _, c := range []struct{ args, want string }{
		{"-C stacks.dec-offs=y -e f", "ksnoop has nothing like stacks.dec-offs: --config-help lists what it has"},
		{"-C nonsense -e f", `retsnoop has no setting "nonsense"`},
		{"-C bpf.ringbuf-size -e f", "write bpf.ringbuf-size=VALUE"},
		{"-C stacks.symb-mode=x -e f", "none of none, line and inlines"},
		{"-S=maybe -e f", `"maybe" is neither y nor n`},
		{"-slines -e f", "none of none, line and inlines"},
		{"-E f", "-E goes with -e"},
		{"-x any f", "-x goes with -e"},
		{"-c -5 f", "a count is 0, for no end, or more, as in -c 5"},
		{"-c +5 f", "a count is a whole number, as in -c 5"},
		{"-c 2.5 f", "neither a number nor one of the presets"},
	} {
		stdout, stderr, status := ran(strings.Fields(c.args)...)
		if status != exitUsage || stdout != "" || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: status %d, stdout %q:\n%s\nwant %s", c.args, status, stdout, stderr, c.want)
		}
	}
	if stdout, stderr, status := ran("--config-help"); status != 0 || stderr != "" || !strings.Contains(stdout, "stacks.symb-mode") {
		t.Errorf("--config-help: status %d, %q, %q", status, stdout, stderr)
	}
	help, _, _ := ran("--help")
	for _, hidden := range []string{"--config", "--call-stack", "--no-comm"} {
		if strings.Contains(help, hidden) {
			t.Errorf("--help has %s", hidden)
		}
	}
}

// -x any asks for all errors, in whatever company.
func TestAnyError(t *testing.T) {
	for _, c := range []struct {
		only []string
		want []uint16
	}{
		{[]string{"any"}, nil}, {[]string{"ANY", "EINVAL"}, nil}, {[]string{"EINVAL", "any"}, nil}, {[]string{"EINVAL"}, []uint16{22}},
	} {
		f := sessionFlags{only: c.only}
		if s, err := f.settings(); err != nil || !slices.Equal(s.only, c.want) {
			t.Errorf("-x %q: %v, %v, want %v", c.only, s.only, err, c.want)
		}
	}
	f := sessionFlags{only: []string{"any", "EFOO"}}
	if _, err := f.settings(); err == nil {
		t.Error("-x any -x EFOO: no error")
	}
}
