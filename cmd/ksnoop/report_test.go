// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var reportPart = regexp.MustCompile(`<script type="text/plain" class="events">([A-Za-z0-9+/=]*)</script>`)

// reportLines returns the lines of events of a report.
func reportLines(t *testing.T, page []byte) string {
	t.Helper()
	var lines strings.Builder
	for _, part := range reportPart.FindAllSubmatch(page, -1) {
		packed, err := base64.StdEncoding.DecodeString(string(part[1]))
		if err != nil {
			t.Fatal(err)
		}
		r, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(&lines, r); err != nil {
			t.Fatal(err)
		}
	}
	return lines.String()
}

// TestReport: a report has what replay prints as JSON for the same SPECs and filters. Each call of these is one record.
func TestReport(t *testing.T) {
	for _, args := range [][]string{
		{recordedCalls}, {recordedSessions}, {recordedCalls, "vfs_read(count, file->f_flags)"}, {recordedCalls, "-c", "1"}, {recordedCalls, "--since", "+100ms"},
		{recordedCalls, "vfs_read(count()[return], hist(count))"}, {recordedSessions, "-x", "EINVAL"}, {recordedSessions, "-x", "ENOENT"}, {recordedCalls, "--grep", "nothing"},
	} {
		name := filepath.Join(t.TempDir(), "report.html")
		_, stderr, status := ran(append([]string{"report", "-o", name}, args...)...)
		want, wantErr, wantStatus := ran(append([]string{"replay", "--format", "json"}, args...)...)
		page, err := os.ReadFile(name)
		if err != nil || status != wantStatus || stderr != wantErr {
			t.Fatalf("%q: status %d, want %d: %q, %v", args, status, wantStatus, stderr, err)
		}
		if got := reportLines(t, page); got != want {
			t.Errorf("%q:\n%s\nwant\n%s", args, got, want)
		}
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
	}
}

// TestReportArguments: what cannot be meant is refused. A report of a recording that was cut off says so.
func TestReportArguments(t *testing.T) {
	name := filepath.Join(t.TempDir(), "report.html")
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{nil, exitUsage, "report takes a FILE, which ksnoop trace --record FILE has made"},
		{[]string{recordedCalls, recordedSessions, "-o", name}, exitUsage, "these are several runs: a report is of one FILE, or of the parts of one run"},
		{[]string{recordedCalls, "--force"}, exitUsage, "--force goes with -o FILE"},
		{[]string{recordedCalls, "--format", "json"}, exitUsage, "--format"},
		{[]string{recordedCalls, "-x", "ENOENT", "-o", name}, exitUsage, "-x, -X and -L are about sessions"},
		{[]string{recordedCalls, "vfs_read(file->nope)", "-o", name}, exitUsage, "struct file has no member"},
	} {
		_, stderr, status := ran(append([]string{"report"}, c.args...)...)
		if _, err := os.Stat(name); status != c.status || !strings.Contains(stderr, c.want) || err == nil {
			t.Errorf("%q: status %d, want %d with %q: %q, %v", c.args, status, c.status, c.want, stderr, err)
		}
	}
	whole, err := os.ReadFile(recordedCalls)
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(t.TempDir(), "cut.ks")
	if err := os.WriteFile(cut, whole[:len(whole)-100], 0o600); err != nil {
		t.Fatal(err)
	}
	_, stderr, status := ran("report", "-o", name, cut)
	page, err := os.ReadFile(name)
	if err != nil || status != exitFailed || !strings.Contains(stderr, "cut off") {
		t.Fatalf("status %d, %q, %v", status, stderr, err)
	}
	if lines := reportLines(t, page); !strings.Contains(lines, `"error":"`) || !strings.HasSuffix(string(page), "</html>\n") {
		t.Errorf("%s", lines)
	}
}
