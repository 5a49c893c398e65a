// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// An event is a line of `go test -json`, see `go doc test2json`.
type event struct {
	Action     string
	Package    string
	ImportPath string // of build output
	Test       string
	Elapsed    float64
	Output     string
}

// A tally counts results and shows the output of what failed.
type tally struct {
	w                       io.Writer
	passed, failed, skipped int
	failures                []string // names, repeated at the end
	flaky                   []string // names of those that have failed, and passed when run again
	times                   times    // of tests, without their parts
	// cpu is how much CPU time the guest has used so far; nil for unit tests, of which the clock counts.
	cpu  func() time.Duration
	rows rows // what works where
}

func (t *tally) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", t.passed, t.failed, t.skipped)
}

// add counts what another tally counted.
func (t *tally) add(other *tally) {
	t.passed += other.passed
	t.failed += other.failed
	t.skipped += other.skipped
	t.failures = append(t.failures, other.failures...)
	t.flaky = append(t.flaky, other.flaky...)
	t.times = append(t.times, other.times...)
	t.rows = append(t.rows, other.rows...)
}

// failedTests returns the tests that have failed, without the parts of each; nil if
// something else has failed as well.
func (t *tally) failedTests() (names []string) {
	for _, f := range t.failures {
		at := strings.LastIndex(f, ".Test")
		if at < 0 {
			return nil
		}
		test, _, _ := strings.Cut(f[at+1:], " ")
		test, _, _ = strings.Cut(test, "/")
		if !slices.Contains(names, test) {
			names = append(names, test)
		}
	}
	return names
}

// retry takes the place of failures by what the same tests did when they were run
// once more.
func (t *tally) retry(again *tally) {
	if again.failed > 0 || again.passed == 0 {
		return
	}
	t.flaky = append(t.flaky, t.failures...)
	t.passed += t.failed
	t.failed, t.failures = 0, nil
	if len(again.rows) > 0 {
		t.rows = again.rows
	}
}

// A suite is one run of one package's tests.
type suite struct {
	output map[string]string // by test, "" is the package itself
	began  time.Duration     // the guest's CPU time when the test that runs began
	tally
}

// unfinished is the output of tests that have no result: they were running
// when their program ended.
func (s *suite) unfinished() string {
	var b strings.Builder
	for _, test := range slices.Sorted(maps.Keys(s.output)) {
		if test != "" {
			fmt.Fprintf(&b, "unfinished: %s\n%s", test, s.output[test])
		}
	}
	return b.String()
}

// read consumes a stream of events. Where tells apart runs of one package, it
// is the kernel's name or empty.
func (t *tally) read(r io.Reader, where string) error {
	suites := map[string]*suite{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			// `go test` itself prints some faults as plain text.
			fmt.Fprintf(t.w, "%s\n", lines.Text())
			continue
		}
		if e.Action == "build-output" {
			fmt.Fprint(t.w, e.Output)
			continue
		}
		if e.Package == "" {
			continue
		}
		s := suites[e.Package]
		if s == nil {
			s = &suite{output: map[string]string{}}
			suites[e.Package] = s
		}
		if t.take(s, e, where); e.Test == "" && isResult(e.Action) {
			delete(suites, e.Package)
		}
	}
	for pkg, s := range suites {
		t.fail(s, event{Package: pkg, Output: s.unfinished() + "ended without a result\n"}, where)
	}
	return lines.Err()
}

// isWhole reports whether a name is that of a test, not of a part of it or of a package.
func isWhole(test string) bool { return test != "" && !strings.Contains(test, "/") }

func isResult(action string) bool {
	return action == "pass" || action == "fail" || action == "skip"
}

// soakMark begins what a test says although it passes: what was tried, how often, and
// what came of it.
const soakMark = "soak: "

// take counts one event.
func (t *tally) take(s *suite, e event, where string) {
	switch {
	case e.Action == "run":
		s.output[e.Test] = ""
		if isWhole(e.Test) && t.cpu != nil {
			s.began = t.cpu()
		}
	case e.Action == "output" && !isFrame(e.Output):
		s.output[e.Test] += e.Output
		t.rows.take(e.Output)
		if _, text, ok := strings.Cut(e.Output, soakMark); ok {
			fmt.Fprintf(t.w, "%s%s: %s", soakMark, where, text)
		}
	}
	switch {
	case !isResult(e.Action):
		return
	case e.Test == "":
		t.endSuite(s, e, where)
	case e.Action == "pass":
		s.passed++
		t.passed++
	case e.Action == "skip":
		s.skipped++
		t.skipped++
		fmt.Fprintf(t.w, "skip  %s\n%s", name(e, where), s.output[e.Test])
	default:
		t.fail(s, e, where)
	}
	if isWhole(e.Test) {
		if t.cpu != nil {
			e.Elapsed = (t.cpu() - s.began).Seconds()
		}
		t.times = append(t.times, timed{name(e, where), where, e.Elapsed})
	}
	delete(s.output, e.Test)
}

func (t *tally) endSuite(s *suite, e event, where string) {
	if e.Action == "fail" && s.failed == 0 {
		// No test to blame: it did not compile, or panicked, or timed out.
		e.Output = s.unfinished()
		t.fail(s, e, where)
	}
	if s.passed+s.failed+s.skipped > 0 {
		took := time.Duration(e.Elapsed * float64(time.Second)).Round(time.Millisecond)
		fmt.Fprintf(t.w, "%-5s %s %v (%v)\n", e.Action, name(event{Package: e.Package}, where), &s.tally, took)
	}
}

func (t *tally) fail(s *suite, e event, where string) {
	s.failed++
	t.failed++
	t.failures = append(t.failures, name(e, where))
	fmt.Fprintf(t.w, "FAIL  %s\n%s%s", name(e, where), s.output[e.Test], e.Output)
}

func name(e event, where string) string {
	n := e.Package
	if e.Test != "" {
		n += "." + e.Test
	}
	if where != "" {
		n += " [" + where + "]"
	}
	return n
}

// isFrame reports whether the line only says that a test starts or goes on.
func isFrame(line string) bool {
	for _, prefix := range []string{"=== RUN", "=== PAUSE", "=== CONT", "=== NAME"} {
		if strings.HasPrefix(line, prefix) {
			return true
		}
	}
	return false
}

// toJSON pipes a test program's output through the converter of the Go
// distribution into the tally.
func toJSON(ctx context.Context, pkg, where string, t *tally) (w io.WriteCloser, wait func() error, err error) {
	cmd := exec.CommandContext(ctx, "go", "tool", "test2json", "-t", "-p", pkg)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	read := make(chan error, 1)
	go func() { read <- t.read(out, where) }()
	return in, func() error {
		in.Close()
		return errors.Join(<-read, cmd.Wait())
	}, nil
}
