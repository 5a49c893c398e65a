// SPDX-License-Identifier: Apache-2.0

package code

import "github.com/ksnoop/ksnoop/internal/ptregs"

// A machine executes instructions of an architecture.
type machine struct {
	pointer, result int   // the words of the stack pointer and of results
	changed         []int // those that functions need not keep
	execute         func(w *walker, in *Instruction)
	imagine         func(m *imagined, f *Function, in *Instruction)
}

// machines are never changed.
var machines = map[string]*machine{
	"amd64": {wordAMD64("sp"), wordAMD64("ax"), ptregs.Words("amd64", changedByCallsAMD64...), (*walker).executeAMD64, (*imagined).executeAMD64},
	"arm64": {stackARM64, 0, changedByCallsARM64, (*walker).executeARM64, (*imagined).executeARM64},
}

// machineOf returns nil if no instructions of an architecture are executed.
func machineOf(arch string) *machine { return machines[arch] }
