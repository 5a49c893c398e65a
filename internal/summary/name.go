// SPDX-License-Identifier: Apache-2.0

package summary

import "strings"

// ValidName makes a name of letters, digits and underscores of a text, as metrics have.
func ValidName(text string) string {
	name := strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_')
	}), "_")
	if name = strings.Trim(name, "_"); name == "" || name[0] <= '9' {
		return "x" + name
	}
	return name
}
