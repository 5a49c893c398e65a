// SPDX-License-Identifier: Apache-2.0

package expr

// available reports whether all words that an item reads are where a program can read them, and of
// known types. If not, that is a fault.
func (c *checker) available(x Expr, it *Item) bool {
	ok := true
	visit := func(t Term) {
		if t != nil && ok {
			ok = Walk(t, func(t Term) bool { return c.readable(x, t) })
		}
	}
	visit(it.Predicate)
	for i := range it.Captures {
		it.Captures[i].visit(visit)
	}
	if g := it.Aggregation; g != nil {
		visit(g.Value)
		for i := range g.Keys {
			g.Keys[i].visit(visit)
		}
	}
	return ok
}

func (c *Capture) visit(f func(Term)) {
	f(c.Value)
	f(c.Target)
	if c.After != nil {
		c.After.visit(f)
	}
}

// readable reports whether t itself reads no word that is lost, and no object that may be of several types.
func (c *checker) readable(x Expr, t Term) bool {
	arg, off, size := resultArg, int64(0), int64(0)
	switch t := t.(type) {
	case *Arg:
		arg, off, size = t.Index, int64(t.Off), int64(t.Width)
	case *Result:
		off, size = int64(t.Off), int64(t.Width)
	case *Object:
		if all := c.several[t.T]; all != nil {
			_, ok := c.ambiguous(t.T, all, x.Span())
			return ok
		}
		if t.Addr != nil {
			return true
		}
		arg, off = t.Arg, t.Off
		size, _ = sizeOf(t.T)
	}
	lost := c.scope.ReturnLost
	switch {
	case arg >= len(c.scope.Params):
		return true // what leads to the parameters of a system call
	case arg != resultArg:
		lost = c.scope.Params[arg].Lost
	}
	for i := off / 8; 8*i < off+size; i++ {
		if lost&(1<<i) != 0 {
			name := "what " + c.scope.Func + " returns"
			if arg != resultArg {
				name = c.paramName(arg) + " of " + c.scope.Func
			}
			c.fault(CodeAbsent, x.Span(), "name a member that is an integer or a pointer", "%s is partly passed in floating-point registers, which the kernel hands to no program", name)
			return false
		}
	}
	return true
}
