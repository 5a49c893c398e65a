// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ksnoop/ksnoop/internal/glob"
)

// BPF programs are described as modules are: by their BTF, in a file of /sys/kernel/btf that the
// kernel does not have. Its name begins with programPrefix. The BTF stands alone: it does not
// extend that of vmlinux.

// programPrefix is what the names of such modules begin with. No module of the kernel has a colon.
const programPrefix = "bpf:"

// A LoadedProgram is a BPF program, in the place of a module.
type LoadedProgram struct {
	ID   uint32
	Name string // of its own function
}

// Module returns what functions of p have as their Module.
func (p LoadedProgram) Module() string { return fmt.Sprintf("%s%d:%s", programPrefix, p.ID, p.Name) }

// programOf is the inverse of Module.
func programOf(module string) (p LoadedProgram, ok bool) {
	rest, ok := strings.CutPrefix(module, programPrefix)
	id, name, colon := strings.Cut(rest, ":")
	n, err := strconv.ParseUint(id, 10, 32)
	return LoadedProgram{uint32(n), name}, ok && colon && err == nil
}

// matches reports whether p has a name that matches a glob, or is its ID.
func (p LoadedProgram) matches(pattern string) bool {
	return glob.Match(pattern, p.Name) || pattern == strconv.FormatUint(uint64(p.ID), 10)
}
