// SPDX-License-Identifier: Apache-2.0

package diff

import "slices"

// A Kind says in what two runs differ.
type Kind uint8

const (
	KindCall   Kind = iota // a call that only one run has
	KindValue              // a value of a call
	KindWay                // the way that a call took through its function
	KindResult             // the result of a call
)

// String returns the name that JSON has.
func (k Kind) String() string { return [...]string{"call", "value", "way", "result"}[k] }

// A Difference is one thing in which two runs differ.
type Difference struct {
	Kind Kind
	// Of is where it was found. For KindCall, one of its calls is nil.
	Of *Node
	// Name is that of the value, or the place of the branch.
	Name string
	// Texts are what the runs have there; "" stands for nothing.
	Texts [2]string
	// Source is the line of the jump, as file:line, if Locate has found it. Of inlined code, those it was inlined at follow.
	Source []string
	// AtEntry says that the value was known before the call did anything.
	AtEntry bool
}

// Func returns the function in which the runs part: that of the call or, of a call that only one run
// has, the one that calls it. It is "" at the top.
func (d *Difference) Func() string {
	n := d.Of
	if d.Kind == KindCall {
		n = n.caller
	}
	if n == nil {
		return ""
	}
	return n.Call().Func
}

// A Node is a call of both runs, or of one, with what was found about it.
type Node struct {
	good, bad   *Call
	Differences []*Difference // of the call itself
	Calls       []*Node
	alike       bool // it and all calls below it are the same in both runs

	caller *Node
}

// Callers returns the functions from the top to the call, without its own.
func (n *Node) Callers() (names []string) {
	for c := n.caller; c != nil; c = c.caller {
		names = append(names, c.Call().Func)
	}
	slices.Reverse(names)
	return names
}

// Call returns the call of either run.
func (n *Node) Call() *Call {
	if n.good != nil {
		return n.good
	}
	return n.bad
}

// A part is a thread of both runs, or of one.
type part struct {
	good, bad *thread
	Calls     []*Node
}

// Result is what was found.
type Result struct {
	good, bad *Run
	parts     []part
	// Differences are all there are, thread by thread, in the order of execution.
	Differences []*Difference
}

// Done returns the first difference that is no value known at entry: not what a call was given, but what it did. It is
// nil if there is none.
func (r *Result) Done() *Difference {
	for _, d := range r.Differences {
		if !d.AtEntry {
			return d
		}
	}
	return nil
}

// A comparer compares calls.
type comparer struct {
	result *Result
	shapes map[[2]*shape]bool // whether they are similar
}

// Compare compares two runs that were collected with the same names. Threads are partners if they have
// the same name, in the order in which they began.
func Compare(good, bad *Run) *Result {
	r := &Result{good: good, bad: bad}
	c := comparer{result: r, shapes: map[[2]*shape]bool{}}
	for _, threads := range partners(good.threads, bad.threads) {
		part := part{good: threads[0], bad: threads[1]}
		var of [2][]*Call
		for i, t := range threads {
			if t != nil {
				of[i] = t.Calls
			}
		}
		part.Calls = c.list(of[0], of[1], nil)
		r.parts = append(r.parts, part)
	}
	return r
}

// partners finds the threads that belong together: those of one name in their order.
func partners(good, bad []*thread) (all [][2]*thread) {
	byName := map[string][]*thread{}
	for _, t := range bad {
		byName[t.Comm] = append(byName[t.Comm], t)
	}
	taken := map[*thread]bool{}
	for _, t := range good {
		of := [2]*thread{t, nil}
		if same := byName[t.Comm]; len(same) > 0 {
			of[1], byName[t.Comm] = same[0], same[1:]
			taken[same[0]] = true
		}
		all = append(all, of)
	}
	for _, t := range bad {
		if !taken[t] {
			all = append(all, [2]*thread{nil, t})
		}
	}
	return all
}

// list compares the calls of two lists, which a caller has made; nil at the top.
func (c *comparer) list(good, bad []*Call, caller *Node) (nodes []*Node) {
	for _, p := range align(good, bad) {
		if p.good != nil && p.bad != nil {
			nodes = append(nodes, c.call(p.good, p.bad, caller))
			continue
		}
		if caller != nil { // it parted from the other one before it came here
			c.way(caller)
		}
		n := &Node{good: p.good, bad: p.bad, caller: caller}
		c.found(n, Difference{Kind: KindCall, Texts: [2]string{resultText(p.good), resultText(p.bad)}})
		nodes = append(nodes, n)
	}
	return nodes
}

// resultText returns what a call has returned, and "" of one that is not there.
func resultText(c *Call) string {
	switch {
	case c == nil:
		return ""
	case !c.Finished:
		return "no return"
	case c.Result == "":
		return "return"
	}
	return c.Result
}

// call compares two calls, and all that they have called.
func (c *comparer) call(good, bad *Call, caller *Node) *Node {
	n := &Node{good: good, bad: bad, caller: caller}
	if n.alike = good.whole == bad.whole; n.alike {
		return n
	}
	values := [2][]Value{good.Values, bad.Values}
	if !c.arguments(n) {
		values = [2][]Value{good.values(), bad.values()}
	}
	c.values(n, values, false)
	n.Calls = c.list(good.Calls, bad.Calls, n)
	c.way(n)
	c.values(n, values, true)
	if a, b := resultText(good), resultText(bad); a != b {
		c.found(n, Difference{Kind: KindResult, Name: "return", Texts: [2]string{a, b}})
	}
	n.alike = len(n.Differences) == 0 && !slices.ContainsFunc(n.Calls, func(below *Node) bool { return !below.alike })
	return n
}

// found notes a difference.
func (c *comparer) found(n *Node, d Difference) {
	d.Of = n
	n.Differences = append(n.Differences, &d)
	c.result.Differences = append(c.result.Differences, &d)
}

// arguments compares the arguments of two calls, if they have the same ones. Texts are made of what differs only.
func (c *comparer) arguments(n *Node) bool {
	good, bad := n.good.groups, n.bad.groups
	if !slices.EqualFunc(good, bad, func(a, b *group) bool { return a.hash == b.hash || c.similar(a.shape, b.shape) }) {
		return false
	}
	for i, g := range good {
		b := bad[i]
		if g.hash == b.hash {
			continue
		}
		for j := range g.shape.leaves {
			if was, is := g.reading(j), b.reading(j); was != is {
				c.found(n, Difference{Kind: KindValue, Name: g.shape.leaves[j].name, Texts: [2]string{g.text(j, was), b.text(j, is)}, AtEntry: true})
			}
		}
	}
	return true
}

// similar reports whether two shapes have leaves of the same names.
func (c *comparer) similar(a, b *shape) bool {
	key := [2]*shape{a, b}
	is, known := c.shapes[key]
	if !known {
		is = slices.EqualFunc(a.leaves, b.leaves, func(a, b leaf) bool { return a.name == b.name && a.signed == b.signed })
		c.shapes[key] = is
	}
	return is
}

// values compares the values of two calls that were known at entry, or those known at return. Of a call that has made no
// others, all are known at once: one that the other run knows at entry counts as such.
func (c *comparer) values(n *Node, of [2][]Value, atReturn bool) {
	good, bad := of[0], of[1]
	var at map[string]int // in bad, from 1; nil: both have the same values in the same order, as most do
	if !slices.EqualFunc(good, bad, func(a, b Value) bool { return a.Name == b.Name }) {
		at = make(map[string]int, len(bad))
		for i, v := range bad {
			at[v.Name] = i + 1
		}
	}
	differs := func(name string, texts [2]string) {
		c.found(n, Difference{Kind: KindValue, Name: name, Texts: texts, AtEntry: !atReturn})
	}
	for i, v := range good {
		j := at[v.Name] - 1
		if i < len(bad) && bad[i].Name == v.Name { // as in most cases
			j = i
		}
		delete(at, v.Name)
		late, other := v.AtReturn, ""
		if j >= 0 {
			late, other = late && bad[j].AtReturn, bad[j].Text
		}
		if late == atReturn && other != v.Text {
			differs(v.Name, [2]string{v.Text, other})
		}
	}
	for i, v := range bad {
		if at[v.Name] == i+1 && v.AtReturn == atReturn {
			differs(v.Name, [2]string{"", v.Text})
		}
	}
}

// way finds where the ways of two calls part, unless that is known.
func (c *comparer) way(n *Node) {
	if slices.ContainsFunc(n.Differences, func(d *Difference) bool { return d.Kind == KindWay }) {
		return
	}
	if n.good == nil || n.bad == nil || len(n.good.Way) == 0 || len(n.bad.Way) == 0 {
		return // one run may not have looked
	}
	name, texts, differ := parting(n.good, n.bad)
	if !differ {
		return
	}
	c.found(n, Difference{Kind: KindWay, Name: name, Texts: texts})
}

// parting returns where two ways part. Of branches, of which the oldest are missing, both begin with the first one
// that both have.
func parting(good, bad *Call) (place string, texts [2]string, ok bool) {
	x, y := 0, 0
	matches := common(len(good.Way), len(bad.Way), func(i, j int) bool { return good.Way[i].equal(&bad.Way[j]) })
	if len(matches) > 0 && (good.cut || bad.cut) {
		x, y = matches[0][0], matches[0][1]
	}
	for len(matches) > 0 && matches[0] == [2]int{x, y} {
		x, y, matches = x+1, y+1, matches[1:]
	}
	if x == len(good.Way) && y == len(bad.Way) || good.cut && len(matches) == 0 && x == 0 {
		return "", texts, false
	}
	for i, way := range [][]Step{good.Way[x:], bad.Way[y:]} {
		switch {
		case len(way) == 0:
			texts[i] = "no branch"
		case place == "":
			place, texts[i] = way[0].Place, way[0].how
		case way[0].Place == place:
			texts[i] = way[0].how
		default:
			texts[i] = "at " + way[0].Place + ": " + way[0].how
		}
	}
	return place, texts, true
}
