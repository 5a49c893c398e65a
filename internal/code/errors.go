// SPDX-License-Identifier: Apache-2.0

package code

import "errors"

// Errors of decoding.
var (
	errShort   = errors.New("the code ends within an instruction")
	errUnknown = errors.New("it is not known to the decoder")
	errArch    = errors.New("no such architecture")
)
