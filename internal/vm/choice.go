// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"os"
	"strings"
)

// KernelsEnv is the variable that says which kernels to test on, separated by
// commas or blanks. Behind a name ":smoke" asks for one test of each feature only.
const KernelsEnv = "KSNOOP_KERNELS"

// What is tested where, in the form of KernelsEnv. The longest runs come first, so
// that guests side by side end at about the same time.
const (
	// TestKernels are for each change: each test on the kernel of Debian's stable release or on the newest, and
	// one test of each feature on others.
	TestKernels = "6.12 newest newest-arm64:smoke 6.1:smoke 6.18:smoke"
	// AllKernels are for a release.
	AllKernels = "6.12 newest 6.1 6.18 newest-arm64 6.12-arm64 newest-rt:smoke"
)

// A Choice is a kernel to test on.
type Choice struct {
	Name  string
	Smoke bool // one test of each feature only
}

// Choices are those of $KSNOOP_KERNELS, or else of the list, which has its form.
func Choices(list string) []Choice {
	split := func(s string) []string {
		return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
	}
	names := split(os.Getenv(KernelsEnv))
	if len(names) == 0 {
		names = split(list)
	}
	choices := make([]Choice, len(names))
	for i, name := range names {
		name, scope, _ := strings.Cut(name, ":")
		choices[i] = Choice{Name: name, Smoke: scope == "smoke"}
	}
	return choices
}

// KernelNames are the kernels that `make test` tests on, in any way.
func KernelNames() []string {
	var names []string
	for _, c := range Choices(TestKernels) {
		names = append(names, c.Name)
	}
	return names
}
