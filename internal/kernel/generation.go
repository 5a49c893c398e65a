// SPDX-License-Identifier: Apache-2.0

package kernel

import "time"

// modulesLast is how long no module is taken to come or go. To read their list takes a tenth of a millisecond.
const modulesLast = time.Second

// Generation returns a number that is another one when modules have come or gone: then an address may have another name. The symbols
// are read again then, unless they are pinned: what is recorded has the names of its beginning.
func (v *View) Generation() uint64 {
	if v.root != nil && !v.pinned.Load() && v.ranges.Load() == nil {
		v.renewIfChanged()
	}
	return v.generation.Load()
}

// renewIfChanged has the symbols read again if modules have come or gone since they were read.
func (v *View) renewIfChanged() {
	now, last := int64(time.Since(v.opened)), v.looked.Load()
	if now-last < int64(modulesLast) || !v.looked.CompareAndSwap(last, now) {
		return
	}
	read := v.table.Load()
	if !read.done.Load() || read.modules == "" {
		return
	}
	if there := v.loadedModules(); there != "" && there != read.modules {
		v.Renew()
		v.generation.Add(1)
	}
}
