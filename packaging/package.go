// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	nfpmfiles "github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

// A packageFormat is a kind of package.
type packageFormat struct {
	name     string
	packager nfpm.Packager
	moved    map[string]string // where its distributions have what is elsewhere below /usr/local
}

var packageFormats = [...]packageFormat{
	{"deb", deb.Default, map[string]string{
		"share/zsh/site-functions/_ksnoop": "share/zsh/vendor-completions/_ksnoop",
		docDir + "CHANGELOG.md":            docDir + "changelog.gz",
	}},
	{"rpm", rpm.DefaultRPM, map[string]string{docDir + "copyright": "share/licenses/ksnoop/LICENSE"}},
}

const description = `what Linux kernel functions are called with, and where they fail
ksnoop shows the arguments and results of kernel functions, and the
stacks of what failed. A line of C says which function and which calls;
the kernel evaluates it as a BPF program.`

// licenceTerms are those of ksnoop, as SPDX writes them: Apache-2.0, and of its BPF programs either of two.
const licenceTerms = "Apache-2.0 AND (BSD-2-Clause OR GPL-2.0-only)"

// packaged returns a package, by the name that its distributions give it.
func packaged(format packageFormat, src source, b build, files []file) (file, error) {
	dir, err := os.MkdirTemp("", "ksnoop-package-")
	if err != nil {
		return file{}, err
	}
	defer os.RemoveAll(dir)
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "ksnoop", Arch: b.arch, Platform: "linux", Version: packageVersion(b.version), VersionSchema: "none", Release: "1",
		Section: "utils", Priority: "optional", Maintainer: "The ksnoop authors <ksnoop@localhost>", Description: description,
		Homepage: "https://github.com/ksnoop/ksnoop", License: licenceTerms, MTime: src.time, DisableGlobbing: true,
	})
	info.Suggests = []string{"bash-completion"}
	info.RPM.BuildHost, info.RPM.Packager = "localhost", info.Maintainer
	info.RPM.Summary, _, _ = strings.Cut(description, "\n")
	for _, f := range files {
		to := f.path
		if moved, ok := format.moved[to]; ok {
			to = moved
		}
		data := f.data
		if strings.HasSuffix(to, ".gz") && !strings.HasSuffix(f.path, ".gz") {
			if data, err = compressed(data); err != nil {
				return file{}, err
			}
		}
		host := filepath.Join(dir, strings.ReplaceAll(f.path, "/", "+"))
		if err := os.WriteFile(host, data, 0o600); err != nil {
			return file{}, err
		}
		info.Contents = append(info.Contents, &nfpmfiles.Content{Source: host, Destination: path.Join("/usr", to),
			FileInfo: &nfpmfiles.ContentFileInfo{Owner: "root", Group: "root", Mode: f.mode, MTime: src.time}})
	}
	if err := nfpm.PrepareForPackager(info, format.name); err != nil {
		return file{}, err
	}
	var out bytes.Buffer
	err = format.packager.Package(info, &out)
	return file{path: format.packager.ConventionalFileName(info), data: out.Bytes(), mode: 0o644}, err
}

// packageVersion writes a version of Go as dpkg and rpm order it: what comes before a release has a ~, which
// sorts before the end of the text, and no hyphen, which begins the revision of the package.
func packageVersion(version string) string {
	release, pre, ok := strings.Cut(version, "-")
	if !ok {
		return version
	}
	return release + "~" + strings.ReplaceAll(pre, "-", ".")
}
