// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"slices"
)

type closer interface{ Close() error }

// closeAll closes what was opened last first: the kernel keeps the definition of an event
// that a link still uses.
func closeAll(opened []closer) error {
	var errs []error
	for _, c := range slices.Backward(opened) {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
