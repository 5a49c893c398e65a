// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"strings"
)

// Files of user space whose functions are traced are described as BPF programs are: by BTF that
// stands alone, in the place of a module's.

// userPrefix is what the names of such modules begin with.
const userPrefix = "uprobe:"

// userModule returns the name for the types of a file, of which there may be several sets.
func userModule(number int, path string) string {
	return fmt.Sprintf("%s%d:%s", userPrefix, number, strings.ReplaceAll(path, "/", "!"))
}

// userPath returns the path of the file that a module stands for; ok is false if it is another module.
func userPath(module string) (path string, ok bool) {
	rest, ok := strings.CutPrefix(module, userPrefix)
	_, path, _ = strings.Cut(rest, ":")
	return strings.ReplaceAll(path, "!", "/"), ok
}

// standsAlone reports whether the BTF of a module extends that of no other.
func standsAlone(module string) bool {
	_, program := programOf(module)
	_, user := userPath(module)
	return program || user
}
