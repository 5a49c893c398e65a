// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"cmp"
	"io/fs"
	"path"

	"github.com/ksnoop/ksnoop/internal/progs"
)

// A programRoot has the types of BPF programs beside the files of a running kernel.
type programRoot struct{ fs.FS }

// ReadFile implements fs.ReadFileFS.
func (r programRoot) ReadFile(name string) ([]byte, error) {
	if p, ok := programOf(path.Base(name)); ok {
		return progs.Types(p.ID)
	}
	return fs.ReadFile(r.FS, name)
}

// ReadDir implements fs.ReadDirFS.
func (r programRoot) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(r.FS, name) }

// A programList is what Programs returns.
type programList struct {
	functions   []Function
	untraceable []UntraceableProgram
}

// An UntraceableProgram is a BPF program whose functions cannot be traced, or one of its functions.
type UntraceableProgram struct {
	Program  LoadedProgram // with the name that its loader has given it
	Function string        // "": all
	Why      error
}

// Selected returns the function by which a SPEC selects it.
func (p *UntraceableProgram) Selected() Function {
	return Function{Name: cmp.Or(p.Function, p.Program.Name), Module: p.Program.Module()}
}
