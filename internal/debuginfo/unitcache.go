// SPDX-License-Identifier: Apache-2.0

package debuginfo

import "slices"

// open returns the unit at off, or nil if it cannot be read.
func (c *unitCache) open(s *sections, off uint64) *unit {
	i := slices.IndexFunc(c.units, func(u *unit) bool { return u.key == off && u.main == s && u.opened })
	var u *unit
	switch {
	case i >= 0:
		u = c.units[i]
	case len(c.units) < c.capacity:
		u = &unit{cache: c}
		c.units = append(c.units, u)
		i = len(c.units) - 1
	default:
		i = len(c.units) - 1
		u = c.units[i]
	}
	copy(c.units[1:i+1], c.units[:i])
	c.units[0] = u
	if !u.opened || u.key != off || u.main != s {
		if u.opened = u.open(s, off); !u.opened {
			return nil
		}
	}
	return u
}
