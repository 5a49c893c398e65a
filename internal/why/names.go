// SPDX-License-Identifier: Apache-2.0

package why

import (
	"slices"
	"strconv"

	"github.com/ksnoop/ksnoop/internal/glob"
)

// hexOffset writes an offset as it stands behind a function: "+0x1c".
func hexOffset(n uint64) string { return "+0x" + strconv.FormatUint(n, 16) }

// matches reports whether a name matches one of some globs.
func matches(globs []string, name string) bool {
	return slices.ContainsFunc(globs, func(g string) bool { return glob.Match(g, name) })
}
