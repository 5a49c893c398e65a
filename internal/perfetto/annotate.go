// SPDX-License-Identifier: Apache-2.0

package perfetto

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/protomsg"
	"github.com/ksnoop/ksnoop/internal/terminal"
	"github.com/ksnoop/ksnoop/internal/typed"
	"github.com/ksnoop/ksnoop/layout"
)

// number adds an annotation with a number in one of the fields for numbers.
func (p *Printer) number(name string, field protowire.Number, v uint64) {
	id := p.tables.name(internedAnnotations, name)
	body, start := protomsg.Begin(p.body, eventAnnotations)
	p.body = protomsg.End(protomsg.AppendUint(protomsg.AppendUint(body, annotationName, id), field, v), start)
}

func (p *Printer) uint(name string, v uint64) { p.number(name, annotationUint, v) }

// string adds an annotation with a text that is safe to show.
func (p *Printer) string(name, text string) {
	p.text = append(p.text[:0], text...)
	p.textual(name, p.text)
}

// textual adds an annotation with a text that is safe to show.
func (p *Printer) textual(name string, text []byte) {
	id := p.tables.name(internedAnnotations, name)
	body, start := protomsg.Begin(p.body, eventAnnotations)
	p.body = protomsg.End(protomsg.AppendString(protomsg.AppendUint(body, annotationName, id), annotationString, text), start)
}

// owner adds whose call it was, as far as that was recorded.
func (p *Printer) owner(o bpf.Owner) {
	if p.run.Plan.Owner&layout.OwnerUID != 0 {
		p.uint("uid", uint64(o.UID))
	}
	if p.run.Plan.Owner&layout.OwnerCgroup == 0 || o.Cgroup == 0 {
		return
	}
	if p.run.Cgroup != nil {
		if path := p.run.Cgroup(o.Cgroup).Path; path != "" {
			p.text = terminal.AppendName(p.text[:0], path)
			p.textual("cgroup", p.text)
			return
		}
	}
	p.uint("cgroup", o.Cgroup)
}

// annotations take the values of a call.
type annotations struct{ p *Printer }

var _ typed.Sink = annotations{}

// annotations adds the values of a call as annotations.
func (p *Printer) annotations() typed.Sink { return annotations{p} }

// numbers are the fields of annotations by the kind of their numbers.
var numbers = [...]protowire.Number{typed.Uint: annotationUint, typed.Int: annotationInt, typed.Bool: annotationBool, typed.Pointer: annotationPointer}

// Number implements typed.Sink.
func (a annotations) Number(name string, k typed.Kind, v uint64) { a.p.number(name, numbers[k], v) }

// Text implements typed.Sink.
func (a annotations) Text(name string, text []byte) { a.p.textual(name, text) }
