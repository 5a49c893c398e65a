// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"errors"
	"fmt"
	"time"

	"github.com/ksnoop/ksnoop/internal/timeout"
)

// How long a process's memory is read, and of how many processes such reads may wait for ever: each takes a thread.
const (
	mostMemory = time.Second
	mostStuck  = 16
)

var (
	errMemory = fmt.Errorf("to read its memory takes more than %v", mostMemory)
	errStuck  = fmt.Errorf("reads of the memory of %d processes have not ended", mostStuck)
)

// memoryReads bounds reads of memory, by process.
func memoryReads() *timeout.Calls {
	return &timeout.Calls{Most: mostStuck, Late: errMemory, GoesOn: errors.New("an earlier read of its memory has not ended"), Many: errStuck}
}
