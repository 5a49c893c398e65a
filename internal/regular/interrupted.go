// SPDX-License-Identifier: Apache-2.0

package regular

import (
	"errors"

	"golang.org/x/sys/unix"
)

// ignoringEINTR opens again while that is interrupted. The runtime's signals interrupt what waits for FUSE or NFS.
func ignoringEINTR(open func() (int, error)) (int, error) {
	for {
		if fd, err := open(); !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}
