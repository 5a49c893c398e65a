// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
)

// libraryPath matches the path of a library in what ldd(1) prints.
var libraryPath = regexp.MustCompile(`(?m)(?:=> |^\s+)(/\S+)`)

// Installed returns a program of this machine with the libraries that it is
// linked with: a tool to compare with. It is for guests of this machine's
// architecture.
func Installed(ctx context.Context, name string) ([]File, error) {
	program, err := exec.LookPath(name)
	if err != nil {
		return nil, err
	}
	out, err := exec.CommandContext(ctx, "ldd", program).Output()
	if err != nil {
		return nil, fmt.Errorf("libraries of %s: %w", program, err)
	}
	files := []File{{Host: program, Guest: "/bin/" + filepath.Base(program)}}
	for _, m := range libraryPath.FindAllStringSubmatch(string(out), -1) {
		host, err := filepath.EvalSymlinks(m[1])
		if err != nil {
			return nil, fmt.Errorf("libraries of %s: %w", program, err)
		}
		files = append(files, File{Host: host, Guest: m[1]})
	}
	return files, nil
}
