// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"strings"
)

// Release returns the kernel's release, such as "6.12.111+deb12-cloud-amd64".
func (v *View) Release() (string, error) { return v.line("proc/sys/kernel/osrelease") }

// Arch returns the kernel's architecture as in GOARCH, or that of this program if the
// kernel does not tell.
func (v *View) Arch() string {
	if v.arch != "" {
		return v.arch
	}
	machine, err := v.line("proc/sys/kernel/arch") // since Linux 6.1
	if arch, ok := map[string]string{"x86_64": "amd64", "aarch64": "arm64"}[machine]; err == nil && ok {
		return arch
	}
	return runtime.GOARCH
}

// line reads a file of one line.
func (v *View) line(file string) (string, error) {
	if v.root == nil {
		return "", errNoKernel
	}
	data, err := fs.ReadFile(v.root, file)
	if err != nil {
		return "", access(file, "", "", err)
	}
	return strings.TrimSpace(string(data)), nil
}

// A config holds the options that the kernel was built with.
type config struct {
	options map[string]string // names without CONFIG_
	file    string            // where they were found; "" for nowhere
	err     error
}

// readConfig reads the configuration from the first place that has it: /proc/config.gz,
// /boot, or the directory of modules.
func (v *View) readConfig() config {
	files := []string{"proc/config.gz"}
	if release, err := v.Release(); err == nil {
		files = append(files, "boot/config-"+release, "lib/modules/"+release+"/config", "usr/lib/modules/"+release+"/config")
	}
	for _, file := range files {
		f, err := v.root.Open(file)
		if err != nil {
			continue
		}
		defer f.Close()
		var r io.Reader = f
		if strings.HasSuffix(file, ".gz") {
			if r, err = gzip.NewReader(f); err != nil {
				return config{file: file, err: fmt.Errorf("reading /%s: %w", file, err)}
			}
		}
		options, err := parseConfig(r)
		if err != nil {
			return config{file: file, err: fmt.Errorf("reading /%s: %w", file, err)}
		}
		return config{options: options, file: file}
	}
	return config{err: errors.New("there is neither /proc/config.gz nor /boot/config-RELEASE")}
}

// parseConfig parses lines of "CONFIG_NAME=value". Options that are not set are absent.
func parseConfig(r io.Reader) (map[string]string, error) {
	options := make(map[string]string)
	in := bufio.NewScanner(r)
	for in.Scan() {
		name, ok := strings.CutPrefix(in.Text(), "CONFIG_")
		if !ok {
			continue
		}
		if name, value, ok := strings.Cut(name, "="); ok {
			options[name] = strings.Trim(value, `"`)
		}
	}
	return options, in.Err()
}
