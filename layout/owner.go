// SPDX-License-Identifier: Apache-2.0

package layout

// An Owner says what records have of the task whose call it was, besides its name and numbers, as
// bits.
type Owner uint8

const (
	OwnerUID    Owner = 1 << iota // its user
	OwnerCgroup                   // its cgroup of version 2
)

// OwnerSize is how many bytes of a record's data the owner takes, in front of the values.
const OwnerSize = 16
