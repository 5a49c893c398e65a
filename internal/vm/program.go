// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
)

const modulePath = "github.com/ksnoop/ksnoop"

// Build compiles a main package of the module, named by its folder, to a static program in
// the /bin of guests of the architecture. The go command's cache makes that quick, and it
// never is an old one.
func Build(ctx context.Context, arch, folder string) (File, error) {
	dir, err := os.MkdirTemp("", "ksnoop-vm-")
	if err != nil {
		return File{}, err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, path.Base(folder))
	cmd := exec.CommandContext(ctx, "go", "build", "-o", program, modulePath+"/"+folder)
	cmd.Env = append(GoEnv(arch), "GOFLAGS=-trimpath")
	if out, err := cmd.CombinedOutput(); err != nil {
		return File{}, fmt.Errorf("build %s: %w\n%s", folder, err, out)
	}
	data, err := os.ReadFile(program)
	return File{Guest: "/bin/" + path.Base(folder), Data: data, Mode: 0o755}, err
}
