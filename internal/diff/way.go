// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"slices"
	"strconv"
	"strings"

	"github.com/ksnoop/ksnoop/internal/session"
)

// way notes the way of a call: that of path(), else its branches, oldest first.
func (r *reader) way(c *Call, path, branches []byte) {
	if path != nil {
		for d := range elements(member(path, "decisions")) {
			c.Way = append(c.Way, r.decision(d))
		}
		if from := member(path, "missing_from"); from != nil { // what follows is not the next
			c.Way = c.Way[:min(uint64(len(c.Way)), number(from))]
		}
		return
	}
	for b := range elements(branches) {
		c.Way = append(c.Way, r.branch(b))
	}
	slices.Reverse(c.Way)
	c.cut = len(c.Way) > 0
}

// decision returns a conditional jump.
func (r *reader) decision(raw []byte) (s Step) {
	var operands []string
	compare, jump := "", ""
	for k, v := range members(raw) {
		switch string(k) {
		case "at":
			s.Place = text(v)
		case "compare":
			compare = text(v)
		case "jump":
			jump = text(v)
		case "to":
			s.to = text(v)
		case "operands":
			for o := range elements(v) {
				value := "?"
				if m := member(o, "value"); m != nil {
					value = text(m)
				}
				operands = append(operands, text(member(o, "name"))+" = "+value)
			}
		}
	}
	if s.Place += " " + compare; compare == "" {
		s.Place = strings.TrimSpace(s.Place)
	}
	way := " not taken"
	if s.to != "" {
		way = " to " + s.to
	}
	s.how = strings.Join(append(operands, jump+way), ", ")
	return r.kept(s)
}

// branches notes the branches of a session, which are there newest first, as its way.
func (r *reader) branches(c *Call, list []session.Branch) {
	if r.resolver == nil {
		return
	}
	for _, b := range slices.Backward(list) {
		to := r.place(b.To)
		c.Way = append(c.Way, r.kept(Step{Place: r.place(b.From), to: to, how: "to " + to}))
	}
	c.cut = len(c.Way) > 0
}

// place returns the text of an address in code.
func (r *reader) place(addr uint64) string {
	r.frames = r.resolver.Frames(r.frames[:0], addr, false)
	f := &r.frames[len(r.frames)-1]
	if f.Name == "" {
		return "0x" + strconv.FormatUint(addr, 16)
	}
	return f.Name + "+" + strconv.FormatUint(f.Offset, 10)
}

// branch returns a branch that the CPU recorded.
func (r *reader) branch(raw []byte) (s Step) {
	s.Place, s.to = place(member(raw, "from")), place(member(raw, "to"))
	s.how = "to " + s.to
	return r.kept(s)
}

func (r *reader) kept(s Step) Step {
	r.memory += valueMemory + len(s.Place) + len(s.how)
	return Step{Place: r.names.share(s.Place), how: r.names.share(s.how), to: r.names.share(s.to)}
}

// place returns the text of a place in code.
func place(frame []byte) string {
	symbol := member(frame, "symbol")
	if symbol == nil {
		return text(member(frame, "addr"))
	}
	return text(symbol) + "+" + string(member(frame, "offset"))
}

// Locate fills in the source lines of the places where ways part. lines returns those of an offset in a symbol, as
// Difference.Source; nil if they are not known.
func (r *Result) Locate(lines func(symbol string, offset uint64) []string) {
	for _, d := range r.Differences {
		if d.Kind != KindWay {
			continue
		}
		at, _, _ := strings.Cut(d.Name, " ")
		symbol, offset, _ := strings.Cut(at, "+")
		if symbol == "" || symbol[0] == '.' { // of the function itself, or of a part of it
			symbol = d.Func() + symbol
		}
		if n, err := strconv.ParseUint(offset, 0, 64); err == nil {
			d.Source = lines(symbol, n)
		}
	}
}
