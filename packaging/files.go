// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// A file is one to be written or installed, by its path below the prefix.
type file struct {
	path string
	data []byte
	mode fs.FileMode
}

const docDir = "share/doc/ksnoop/"

// completions are where shells look for them, below /usr and /usr/local alike.
var completions = [...]struct{ shell, path string }{
	{"bash", "share/bash-completion/completions/ksnoop"},
	{"zsh", "share/zsh/site-functions/_ksnoop"},
	{"fish", "share/fish/vendor_completions.d/ksnoop.fish"},
}

// service are the unit of the agent, which nobody has enabled yet, an example of what it reads, and a manifest for Kubernetes.
var service = [...]string{"lib/systemd/system/ksnoop.service", docDir + "agent.yaml", docDir + "ksnoop.daemonset.yaml"}

// installed returns what a package of a build has, in the order of paths.
func (s source) installed(ctx context.Context, b build, builds []build) ([]file, error) {
	files := []file{{"bin/ksnoop", b.program, 0o755}}
	native := slices.IndexFunc(builds, func(b build) bool { return b.arch == runtime.GOARCH })
	if native < 0 {
		return nil, fmt.Errorf("completions are made by a ksnoop that runs here, and none is built for %s", runtime.GOARCH)
	}
	for _, c := range completions {
		script, err := output(ctx, s.dir, builds[native].path, "completion", c.shell)
		if err != nil {
			return nil, err
		}
		files = append(files, file{c.path, []byte(script + "\n"), 0o644})
	}
	pages, err := filepath.Glob(filepath.Join(s.dir, "docs", "man", "*.1"))
	if err != nil || len(pages) == 0 {
		return nil, errors.Join(errors.New("docs/man has no man pages"), err)
	}
	for _, page := range pages {
		data, err := os.ReadFile(page)
		if err != nil {
			return nil, err
		}
		if data, err = compressed(data); err != nil {
			return nil, err
		}
		files = append(files, file{"share/man/man1/" + filepath.Base(page) + ".gz", data, 0o644})
	}
	for _, f := range service {
		data, err := os.ReadFile(filepath.Join(s.dir, "packaging", filepath.Base(f)))
		if err != nil {
			return nil, err
		}
		files = append(files, file{f, data, 0o644})
	}
	documents, err := s.documents()
	if err != nil {
		return nil, err
	}
	rights, err := s.licences(ctx, b)
	return append(append(files, documents...), file{docDir + "copyright", rights, 0o644}), err
}

// documents returns README, changelog and the pages of docs, which refer to each other by relative links.
func (s source) documents() (files []file, err error) {
	pages, err := filepath.Glob(filepath.Join(s.dir, "docs", "*.md"))
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"README.md", "CHANGELOG.md", "CONTRIBUTING.md"} {
		pages = append(pages, filepath.Join(s.dir, name))
	}
	for _, page := range pages {
		data, err := os.ReadFile(page)
		if err != nil {
			return nil, err
		}
		rel, err := filepath.Rel(s.dir, page)
		if err != nil {
			return nil, err
		}
		files = append(files, file{docDir + filepath.ToSlash(rel), data, 0o644})
	}
	return files, nil
}

var licenceFile = regexp.MustCompile(`(?i)^(licen[sc]e|copying|notice|patents)([.-].*)?$`)

// licences returns the terms of ksnoop, of Go, and of each module that the binary has in it. A module
// without a file of terms is an error: it could not be given away.
func (s source) licences(ctx context.Context, b build) ([]byte, error) {
	goroot, err := output(ctx, s.dir, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	dirs := [][2]string{{"ksnoop", s.dir}, {"Go", goroot}}
	for _, dep := range b.info.Deps {
		dir, err := output(ctx, s.dir, "go", "list", "-m", "-f", "{{.Dir}}", dep.Path)
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, [2]string{dep.Path + " " + dep.Version, dir})
	}
	var text bytes.Buffer
	for _, d := range dirs {
		entries, err := os.ReadDir(d[1])
		if err != nil {
			return nil, err
		}
		found := false
		for _, e := range entries {
			if e.IsDir() || !licenceFile.MatchString(e.Name()) {
				continue
			}
			terms, err := os.ReadFile(filepath.Join(d[1], e.Name()))
			if err != nil {
				return nil, err
			}
			found = true
			fmt.Fprintf(&text, "==== %s: %s ====\n\n%s\n\n", d[0], e.Name(), bytes.TrimSpace(terms))
		}
		if !found {
			return nil, fmt.Errorf("%s has no licence in %s", d[0], d[1])
		}
	}
	return text.Bytes(), nil
}

// tarball returns an archive to be unpacked below /usr/local.
func tarball(mtime time.Time, files []file) ([]byte, error) {
	data, err := archived(mtime, files)
	if err != nil {
		return nil, err
	}
	return compressed(data)
}

// archived returns an archive of root's files, and of folders, whose paths end with a slash.
func archived(mtime time.Time, files []file) ([]byte, error) {
	var data bytes.Buffer
	w := tar.NewWriter(&data)
	for _, f := range files {
		head := &tar.Header{Name: f.path, Mode: int64(f.mode), Size: int64(len(f.data)), ModTime: mtime, Uname: "root", Gname: "root", Format: tar.FormatPAX}
		if err := w.WriteHeader(head); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return data.Bytes(), err
}

// compressed has neither a name nor a time in its head.
func compressed(data []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	err = w.Close()
	return out.Bytes(), err
}

// writeSums writes SHA256SUMS as sha256sum -c reads it.
func writeSums(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(data), path.Base(e.Name()))
	}
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(sums.String()), 0o644)
}
