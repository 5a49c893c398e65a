// SPDX-License-Identifier: Apache-2.0

package jsonlines

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/calls"
	"github.com/ksnoop/ksnoop/internal/container"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/layout"
)

// reads prints calls of ksys(return) that return these values, each by a task of its sign, with
// a stack. Of users and cgroups, those that fail have others than those that do not.
func reads(t *testing.T, results ...int64) []byte {
	t.Helper()
	view := testKernel(t)
	plan := resolve(t, view, "ksys(return)")
	plan.Owner = layout.OwnerUID | layout.OwnerCgroup
	p := newTestPrinter(t, view, plan, false)
	p.run.Cgroup = func(id uint64) container.Group { return map[uint64]container.Group{18: {Path: "/user.slice"}}[id] }
	out, err := p.AppendHeader(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range results {
		e := eventOf(t, plan, 0, plan.Probes[0].Return, bpf.KindReturn, func(_ *layout.Slot, raw []byte) { binary.LittleEndian.PutUint64(raw, uint64(n)) })
		name := "reader"
		if n > 100 {
			name = "big reader"
		}
		copy(e.Comm[:], name+"\x00")
		if n < 0 {
			e.Owner = bpf.Owner{UID: 1000, Cgroup: uint64(20 + n)} // of -2 it has a path
		}
		e.Tail = event.Tail(bpf.AppendSection(nil, &bpf.Section{Kind: bpf.SectionStack, Data: binary.LittleEndian.AppendUint64(nil, 0xffffffff81000000)}))
		if out, err = p.AppendCall(out, &calls.Call{Return: e, End: calls.Whole}); err != nil {
			t.Fatal(err)
		}
	}
	totals := &output.Totals{}
	totals.Lost[bpf.LostRingbuf] = 3
	if out, err = p.AppendEnd(out, totals); err != nil {
		t.Fatal(err)
	}
	return out
}

// joined prints calls of ksys(u, return), of which call i, from 1 on, takes i microseconds; each
// tenth fails.
func joined(t *testing.T, n int) []byte {
	t.Helper()
	view := testKernel(t)
	plan := resolve(t, view, "ksys(u, return)")
	p := newTestPrinter(t, view, plan, false)
	out, err := p.AppendHeader(nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i <= n; i++ {
		result := int64(i)
		if i%10 == 0 {
			result = -2
		}
		fill := func(_ *layout.Slot, raw []byte) { binary.LittleEndian.PutUint64(raw, uint64(result)) }
		entry, ret := eventOf(t, plan, 0, plan.Probes[0].Entry, bpf.KindEntry, fill), eventOf(t, plan, 0, plan.Probes[0].Return, bpf.KindReturn, fill)
		ret.Time = entry.Time + uint64(i)*1000
		if out, err = p.AppendCall(out, &calls.Call{Entry: entry, Return: ret, End: calls.Paired}); err != nil {
			t.Fatal(err)
		}
	}
	if out, err = p.AppendEnd(out, &output.Totals{Records: uint64(n)}); err != nil {
		t.Fatal(err)
	}
	return out
}

// duckDB is a program that runs statements and prints the rows of each.
const duckDB = `import { DuckDBInstance } from '@duckdb/node-api';
const c = await (await DuckDBInstance.create(':memory:')).connect();
for (const sql of process.argv.slice(2)) console.log(JSON.stringify((await c.runAndReadAll(sql)).getRowsJson()));
`

var statement = regexp.MustCompile(`(?m)^    ((?:SELECT|COPY) .*;)$`)

// TestDuckDB runs the statements of docs/json.md. DuckDB is taken from npm, so only
// make test-all does it.
func TestDuckDB(t *testing.T) {
	if os.Getenv("KSNOOP_NPM") == "" {
		t.Skip("KSNOOP_NPM is not set: nothing is installed from npm")
	}
	doc, err := os.ReadFile("../../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	run := func(name string, args ...string) string {
		t.Helper()
		c := exec.Command(name, args...)
		c.Dir = dir
		var errs bytes.Buffer
		c.Stderr = &errs
		out, err := c.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, errs.String())
		}
		return string(out)
	}
	for name, text := range map[string][]byte{"join.json": joined(t, 200), "run.mjs": []byte(duckDB)} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run("npm", "install", "--no-audit", "--no-fund", "@duckdb/node-api@1.5.6-r.1")
	args := []string{"run.mjs"}
	for _, m := range statement.FindAllSubmatch(doc, -1) {
		args = append(args, string(m[1]))
	}
	// Of durations of 1 to 200 us, and of the numbers up to 200 without those that 10 divides.
	const want = `[["ksys","200",198010]]` + "\n" + `[["a \"task\"\u001b","ENOENT","20"]]` + "\n" + `[["200"]]` + "\n" + `[[18000]]` + "\n"
	if got := run("node", args...); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

var command = regexp.MustCompile(`(?m)^    (jq .*)$`)

// TestJQ runs the commands of docs/json.md.
func TestJQ(t *testing.T) {
	if _, err := exec.LookPath("jq"); err != nil {
		t.Skip("jq is not installed (make packages installs it)")
	}
	doc, err := os.ReadFile("../../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	sessions := printed(t, "../../testdata/sessions.ks")
	enumerator := bytes.ReplaceAll(sessions, []byte(`{"value":-22,"error":"EINVAL"}`), []byte(`{"name":"NO_HOOK","value":-1}`))
	for name, text := range map[string][]byte{"reads.json": reads(t, -2, 9, -2, 2000, -12, 1), "sessions.json": slices.Concat(sessions, enumerator)} {
		check(t, text)
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"1 ENOMEM\n2 ENOENT\n", "2000 big reader\n10 reader\n", "array_map_alloc_check EINVAL\narray_map_alloc_check NO_HOOK\n", "6 \n", "2 1000 /user.slice\n1 1000 8\n", "{\n\"ringbuf\": 3\n}\n"}
	found := command.FindAllSubmatch(doc, -1)
	if len(found) != len(want) {
		t.Fatalf("the document has %d commands, want %d", len(found), len(want))
	}
	for i, m := range found {
		c := exec.Command("sh", "-c", string(m[1]))
		c.Dir = dir
		var errs bytes.Buffer
		c.Stderr = &errs
		out, err := c.Output()
		var lines []string
		for line := range strings.Lines(string(out)) {
			lines = append(lines, strings.TrimLeft(line, " "))
		}
		if strings.Contains(string(m[1]), "uniq -c") {
			slices.Sort(lines)
		}
		if got := strings.Join(lines, ""); err != nil || got != want[i] {
			t.Errorf("%s\n%v %s\ngot %q, want %q", m[1], err, errs.String(), got, want[i])
		}
	}
}
