// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"math"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ksnoop/ksnoop/internal/protomsg"
	"github.com/ksnoop/ksnoop/internal/terminal"
	"github.com/ksnoop/ksnoop/internal/typed"
)

// An Attribute is one that the user has chosen.
type Attribute struct{ Name, Value string }

// valuePrefix stands before the names of captured values, which may be any.
const valuePrefix = "ksnoop.value."

// attributes are those of a message that is being made.
type attributes struct {
	body  []byte           // of the message
	field protowire.Number // that it has attributes in
	name  []byte
	value []byte
	// hidden is the name of a captured value that is no attribute.
	hidden string
}

var _ typed.Sink = (*attributes)(nil)

// begin begins an attribute.
func (a *attributes) begin(prefix, name string) (key, value int) {
	a.name = terminal.AppendName(append(a.name[:0], prefix...), name)
	a.body, key = protomsg.Begin(a.body, a.field)
	a.body = protomsg.AppendString(a.body, keyName, a.name)
	a.body, value = protomsg.Begin(a.body, keyValue)
	return key, value
}

func (a *attributes) end(key, value int) {
	a.body = protomsg.End(protomsg.End(a.body, value), key)
}

// text adds a text that is safe to show.
func (a *attributes) text(name string, text []byte) { a.textual("", name, text) }

func (a *attributes) textual(prefix, name string, text []byte) {
	key, value := a.begin(prefix, name)
	a.body = protomsg.AppendString(a.body, anyString, text)
	a.end(key, value)
}

// foreign adds a text that others have chosen.
func (a *attributes) foreign(name, text string) {
	a.value = terminal.AppendName(a.value[:0], text)
	a.text(name, a.value)
}

// number adds a number. One that is too large for the protocol's signed numbers is a text.
func (a *attributes) number(prefix, name string, v uint64) {
	if v > math.MaxInt64 {
		a.value = strconv.AppendUint(a.value[:0], v, 10)
		a.textual(prefix, name, a.value)
		return
	}
	a.integer(prefix, name, anyInt, v)
}

func (a *attributes) integer(prefix, name string, field protowire.Number, v uint64) {
	key, value := a.begin(prefix, name)
	a.body = protomsg.AppendUint(a.body, field, v)
	a.end(key, value)
}

func (a *attributes) uint(name string, v uint64) { a.number("", name, v) }

// Number implements typed.Sink.
func (a *attributes) Number(name string, k typed.Kind, v uint64) {
	if a.hides(name) {
		return
	}
	switch k {
	case typed.Bool:
		a.integer(valuePrefix, name, anyBool, v)
	case typed.Int:
		a.integer(valuePrefix, name, anyInt, v)
	case typed.Pointer:
		a.value = strconv.AppendUint(append(a.value[:0], "0x"...), v, 16)
		a.textual(valuePrefix, name, a.value)
	default:
		a.number(valuePrefix, name, v)
	}
}

// Text implements typed.Sink.
func (a *attributes) Text(name string, text []byte) {
	if !a.hides(name) {
		a.textual(valuePrefix, name, text)
	}
}

// hides reports whether a captured value is said in another way.
func (a *attributes) hides(name string) bool { return a.hidden != "" && name == a.hidden }
