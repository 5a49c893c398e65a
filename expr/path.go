// SPDX-License-Identifier: Apache-2.0

package expr

// pathFunction is the item that shows the way of a call.
const pathFunction = "path"

// path checks path(), an item by itself.
func (c *checker) path(call *Call) bool {
	if n := len(call.Args); n > 0 {
		c.fault(CodeArgs, call.Pos, "write path()", "path() takes no arguments, not %d", n)
		return false
	}
	if c.scope.Point {
		c.fault(CodeUnsupported, call.Pos, "give the function as a SPEC of its own", "path() is the way from a call to its return, which this probe does not see")
		return false
	}
	if c.scope.User {
		c.fault(CodeUnsupported, call.Pos, "", "path() is the way through a function of the kernel")
		return false
	}
	if c.pathSeen {
		c.fault(CodeType, call.Pos, "", "path() stands here twice")
		return false
	}
	c.pathSeen = true
	return true
}
