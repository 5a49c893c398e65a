// SPDX-License-Identifier: Apache-2.0

package folded

import (
	"archive/tar"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/formattest"
)

// speedscope is the package of npm.
const speedscope = "speedscope@1.25.0"

// TestSpeedscope: speedscope, in a browser without a screen, shows the functions with what
// was counted in them. KSNOOP_SCREENSHOT names a file for a picture of it.
func TestSpeedscope(t *testing.T) {
	if os.Getenv("KSNOOP_TOOLS") == "" {
		t.Skip("KSNOOP_TOOLS is not set: this takes npm and chromium, which `make test-all` installs")
	}
	k := formattest.New(t, "t_")
	k.Sessions(false, "t_open", "t_read", "t_alloc")
	p := New(k.Run, Time)
	if _, err := p.AppendSession(nil, k.Failed()); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	script := filepath.Join(dir, "profile.js")
	text := fmt.Sprintf("speedscope.loadFileFromBase64(%q, %q)", "sessions.folded", base64.StdEncoding.EncodeToString([]byte(end(t, p))))
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	page := "file://" + unpacked(t, dir) + "/package/dist/release/index.html#localProfilePath=" + script + "&view="
	if file := os.Getenv("KSNOOP_SCREENSHOT"); file != "" {
		browse(t, dir, page+"left-heavy", "--window-size=1200,600", "--screenshot="+file)
	}
	got := rows(browse(t, dir, page+"sandwich", "--dump-dom"))
	for _, want := range []string{
		"1,000 (100%) 700 (70%) t_open", "300 (30%) 200 (20%) t_read", "100 (10%) 100 (10%) t_alloc [mod]", "1,000 (100%) 0 (<0.01%) do_syscall",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
}

// rows returns the texts of a page's rows of a table.
func rows(dom string) (rows []string) {
	tag := regexp.MustCompile(`<[^>]*>`)
	for row := range strings.SplitSeq(dom, "<tr") {
		_, row, _ = strings.Cut(row, ">")
		rows = append(rows, strings.Join(strings.Fields(html.UnescapeString(tag.ReplaceAllString(row, " "))), " "))
	}
	return rows
}

// browse opens a page and returns what the browser prints.
func browse(t *testing.T, dir, page string, args ...string) string {
	t.Helper()
	args = append([]string{"--headless", "--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
		"--user-data-dir=" + filepath.Join(dir, "browser"), "--virtual-time-budget=20000"}, args...)
	out, err := exec.Command("chromium", append(args, page)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// unpacked gets speedscope from npm and returns the folder that it is in.
func unpacked(t *testing.T, dir string) string {
	t.Helper()
	cmd := exec.Command("npm", "pack", "--silent", speedscope)
	cmd.Dir = dir
	name, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(filepath.Join(dir, strings.TrimSpace(string(name))))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	plain, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(plain); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		if !filepath.IsLocal(h.Name) || h.Typeflag != tar.TypeReg {
			continue
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, h.Name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, content, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}
