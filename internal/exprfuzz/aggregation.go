// SPDX-License-Identifier: Apache-2.0

package exprfuzz

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/cilium/ebpf/btf"
)

// Aggregation returns the text of an item that adds calls up. Few keys are as diverse as what they
// are made of, so that calls meet in a row. Keys and values that belong to the tracer rather than
// to a call, such as $stack and $duration, do not occur.
func (g *Gen) Aggregation() string {
	value := g.Int(g.IntN(3))
	if g.chance(30) {
		value = fmt.Sprintf("(%s) & %d", value, pick(g, []int{1, 3, 15, 255, 4095}))
	}
	var text string
	switch k := g.IntN(20); {
	case k < 2:
		text = "count()"
	case k < 10:
		text = pick(g, []string{"sum", "min", "max", "avg", "stats", "hist", "quantiles"}) + "(" + value + ")"
	case k < 13:
		text = fmt.Sprintf("hist(%s, %d)", value, 1<<g.IntN(6))
	case k < 16:
		text = "lhist(" + value + ", " + g.bounds() + ")"
	default:
		if g.chance(20) {
			value, _ = g.Ptr(2)
		}
		text = fmt.Sprintf("top(%d, %s)", 1+g.IntN(64)>>g.IntN(6), value)
	}
	var keys []string
	for range g.IntN(4) {
		keys = append(keys, g.key())
	}
	if keys == nil {
		return text
	}
	return text + "[" + strings.Join(keys, ", ") + "]"
}

// bounds returns the constants of lhist().
func (g *Gen) bounds() string {
	step := pick(g, []int64{1, 2, 7, 64, 1000, 1 << 20, 1 << 40})
	n := 1 + g.Int64N(64)
	low := pick(g, []int64{0, 0, 1, -1, -n * step / 2, -n * step, 100, 1 << 31, -1 << 31, -1 << 62})
	if g.chance(5) {
		low = 1<<63 - 1 - n*step
	}
	return fmt.Sprintf("%d, %d, %d", low, low+n*step, step)
}

// key returns the text of a key.
func (g *Gen) key() string {
	switch g.IntN(13) {
	case 0:
		return pick(g, []string{"$comm", "$pid", "$tid", "$uid"})
	case 1:
		p, _ := g.Ptr(2)
		return p
	case 2:
		p, _ := g.Ptr(2)
		return pick(g, []string{"str(", "ustr("}) + p + ")"
	case 3:
		p, _ := g.Ptr(2)
		return "buf(" + p + ", " + strconv.Itoa(1+g.IntN(64)) + ")"
	case 4:
		return g.Int(2)
	case 5, 6:
		for range 4 {
			if text, t := g.member(2); t != nil && keySize(t) {
				return text
			}
		}
	case 7:
		for range 4 {
			p, s := g.Ptr(2)
			if path, t := g.within(s); t != nil && keySize(t) {
				return p + "->" + path
			}
		}
	}
	return fmt.Sprintf("(%s) %s %d", g.Int(1+g.IntN(2)), pick(g, []string{"&", "%", "<", "=="}), 1+g.IntN(7))
}

// keySize reports whether a value can be a key.
func keySize(t btf.Type) bool {
	if arr, ok := btf.UnderlyingType(t).(*btf.Array); ok {
		if i, ok := btf.UnderlyingType(arr.Type).(*btf.Int); ok && i.Encoding == btf.Char {
			return true
		}
	}
	size, err := btf.Sizeof(t)
	return err == nil && size > 0 && size <= 64
}
