// SPDX-License-Identifier: Apache-2.0

package code

import "github.com/ksnoop/ksnoop/internal/ptregs"

// A machine is what the instructions of an architecture, and the calls of functions, have in common.
type machine struct {
	pointer, result int   // the words of the stack pointer and of results
	changed         []int // those that functions need not keep
}

// machines are those whose instructions are executed. On arm64, x18 may be the pointer to a stack of return addresses.
var machines = map[string]*machine{
	"amd64": {wordAMD64("sp"), wordAMD64("ax"), ptregs.Words("amd64", "ax", "cx", "dx", "si", "di", "r8", "r9", "r10", "r11")},
	"arm64": {stackARM64, 0, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, linkARM64}},
}

// machineOf returns nil if no instructions of an architecture are executed.
func machineOf(arch string) *machine { return machines[arch] }
