// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// hostScript traces in a guest what a workload does there: it opens a file three times. Of one host that fails. The
// recording comes through its standard output, as through ssh.
const hostScript = `hostname "$1"
date -s "$2" >/dev/null
file=/tmp/there
: >$file
[ "$1" = host3 ] && file=/tmp/there/not
ksnoop --record /dev/stdout -S -e do_sys_openat2 -n workload -s none -v 2>/tmp/said &
traced=$!
until grep -q Receiving /tmp/said; do sleep 0.2; done
for i in 1 2 3; do workload open -file $file >/dev/null 2>&1; done
kill -INT $traced
wait $traced
`

// failingHosts is the query of docs/fleet.md: which function fails on which hosts, how often, since when.
const failingHosts = `[inputs | .resourceSpans[] | (.resource.attributes | map({(.key): .value.stringValue}) | add) as $of
	| .scopeSpans[].spans[] | select((.parentSpanId // "") == "" and .status.code == 2) | {host: $of["host.name"], name, since: .startTimeUnixNano, error: .status.message}]
	| group_by([.host, .name, .error])[] | "\(.[0].host) \(.[0].name) \(.[0].error) \(length) \(map(.since | tonumber / 1e9) | min | todate)"`

// TestHosts: five guests with skewed clocks, one after another, into one collector. One query finds the host that fails,
// and how its clock is wrong.
func TestHosts(t *testing.T) {
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		t.Skip("there is no QEMU: ", err)
	}
	p := build(t)
	dir := t.TempDir()
	guestrun, script := filepath.Join(dir, "guestrun"), filepath.Join(dir, "host.sh")
	compile := exec.Command("go", "build", "-o", guestrun, "./internal/vm/guestrun")
	compile.Dir = ".."
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.WriteFile(script, []byte(hostScript), 0o600); err != nil {
		t.Fatal(err)
	}
	c := p.start(t, address(t), filepath.Join(dir, "out"))
	for i, clock := range []string{"2026-01-01 00:00", "2026-03-01 12:00", "2031-07-01 06:00", "2020-01-01 00:00", "2026-01-01 00:05"} {
		host := fmt.Sprintf("host%d", i+1)
		var errs bytes.Buffer
		guest := exec.Command(guestrun, "-kernel", "6.12", "-cpus", "1", "-file", script+":/host.sh", "sh", "/host.sh", host, clock)
		guest.Dir, guest.Stderr = "..", &errs
		recorded, err := guest.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s", host, err, &errs)
		}
		file := filepath.Join(dir, host)
		if err := os.WriteFile(file, recorded, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d bytes; %s", host, len(recorded), strings.TrimSpace(p.export(t, file, "--otlp", c.url)))
	}
	c.stop()
	query := exec.Command("jq", "-nr", failingHosts, c.out+"traces")
	out, err := query.Output()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", out)
	// What starts a workload looks for files that no host has (ENOENT); below a file only host3 looks.
	if want := "host3 do_sys_openat2 ENOTDIR 3 2031-07-01T06:"; !strings.Contains("\n"+string(out), "\n"+want) || strings.Count(string(out), "ENOTDIR") != 1 {
		t.Errorf("%q, want %s", out, want)
	}
	if hosts := strings.Count(string(must(os.ReadFile(c.out+"traces"))), `"stringValue":"host`); hosts < 5 {
		t.Errorf("spans of %d hosts", hosts)
	}
}

func must(raw []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return raw
}
