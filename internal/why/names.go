// SPDX-License-Identifier: Apache-2.0

package why

import (
	"slices"
	"strconv"
	"strings"

	"github.com/ksnoop/ksnoop/internal/glob"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// hexOffset writes an offset as it stands behind a function: "+0x1c".
func hexOffset(n uint64) string { return "+0x" + strconv.FormatUint(n, 16) }

// matches reports whether a name matches one of some globs.
func matches(globs []string, name string) bool {
	return slices.ContainsFunc(globs, func(g string) bool { return glob.Match(g, name) })
}

// lines returns the lines of a text, without an empty last one.
func lines(text []byte) []string {
	all := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	for i := range all {
		all[i] = terminal.Name(all[i])
	}
	return all
}

// How the lines of a path begin, and those of a stack.
const (
	pathTitle  = "        path:"
	pathIndent = "            "
)
