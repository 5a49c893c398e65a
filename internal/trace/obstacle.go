// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"fmt"

	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/kernel"
)

// Obstacle says what stands in the way of all tracing, and what to do about it; nil if
// nothing is known to.
func Obstacle(view *kernel.View) error {
	p, err := view.Privileges()
	if err != nil {
		return err
	}
	o, found := view.Obstacle(p)
	if found {
		hint := o.Do
		if hint != "" {
			hint = "\n" + hint
		}
		return fmt.Errorf("cannot trace: %s%s", o, hint)
	}
	if view.Tested() {
		return nil
	}
	if err := attach.Lacking(); err != nil {
		release, _ := view.Release()
		return fmt.Errorf("cannot trace Linux %s: %w", release, err)
	}
	return nil
}
