// SPDX-License-Identifier: Apache-2.0

package diff

// A Value is one number, text or other scalar that was captured: a member of a struct is one.
type Value struct {
	Name     string // as C would write it: attr->max_entries
	Text     string
	AtReturn bool // it is not known before the call returns
}
