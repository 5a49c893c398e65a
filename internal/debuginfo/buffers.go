// SPDX-License-Identifier: Apache-2.0

package debuginfo

import "slices"

// size returns how many bytes the buffers take that the unit keeps for the next one.
func (u *unit) size() uint64 {
	t := &u.lines
	return bytesOf(t.rows) + bytesOf(t.sequences) + bytesOf(t.header.dirs) + bytesOf(t.header.files) +
		bytesOf(u.functions) + bytesOf(u.scratch) + bytesOf(u.abbrevs.abbrevs) + bytesOf(u.abbrevs.attributes)
}

// charge takes room for what the unit's buffers have grown by. A file of a few kilobytes can
// make them gigabytes. If there is no room, that of the other units in the cache is used.
func (u *unit) charge() {
	n := u.size()
	if u.main.room == nil || n <= u.charged {
		return
	}
	n -= u.charged
	err := u.main.room.resize(int64(n))
	if err != nil && u.cache != nil {
		u.cache.drop(u)
		err = u.main.room.resize(int64(n))
	}
	if err != nil {
		u.release()
		panic(refusal{err})
	}
	u.charged += n
}

// release empties the unit and gives back its room.
func (u *unit) release() {
	if u.charged > 0 {
		_ = u.main.room.resize(-int64(u.charged)) // which needs no room
	}
	*u = unit{cache: u.cache}
}

// drop drops all units but one.
func (c *unitCache) drop(keep *unit) {
	c.units = slices.DeleteFunc(c.units, func(u *unit) bool {
		if u != keep {
			u.release()
		}
		return u != keep
	})
}

// release gives back the room of a reader that is not used any more.
func (r *reader) release() {
	r.units.drop(nil)
	r.foreign.drop(nil)
}
