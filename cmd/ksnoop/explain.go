// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/btfprint"
	"github.com/ksnoop/ksnoop/codegen"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/terminal"
	"github.com/ksnoop/ksnoop/layout"
)

// explain prints what a plan would do: types, offsets, phases, and the
// generated instructions with the text that each stands for.
func explain(w io.Writer, p *plan.Plan, target codegen.Options) error {
	var b strings.Builder
	for i, probe := range p.Probes {
		if i > 0 {
			b.WriteByte('\n')
		}
		programs, err := codegen.Compile(&probe.Probe, target)
		if err != nil {
			return err
		}
		explainProbe(&b, probe)
		if probe.AtBothEnds() {
			explainProgram(&b, "at both ends", []bpf.Subprogram{*programs.Either})
		}
		explainProgram(&b, "at entry", programs.Entry)
		explainProgram(&b, "at return", programs.Return)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func explainProbe(b *strings.Builder, p *plan.Probe) {
	switch proto := p.Signature(); {
	case p.Hook.Inlined:
		fmt.Fprintf(b, "%s\n", appendParams(terminal.AppendName(nil, p.Name), p.Hook.Params))
	case proto != nil:
		fmt.Fprintf(b, "%s\n", btfprint.AppendFunc(nil, p.Name, proto))
	default:
		fmt.Fprintf(b, "%s /* no types are known */\n", terminal.Name(p.Name))
	}
	shape := "entry and return are sent separately"
	switch {
	case p.Aggregates() && p.Return != nil && len(p.Return.Updates) > 0:
		shape = "calls are added up when they return, and no record is sent"
	case p.Aggregates():
		shape = "calls are added up when they begin, and no record is sent"
	case p.Joined && p.Stashed:
		shape = "one record for a call, stashed at entry and sent at return"
	case p.Joined:
		shape = "one record for a call, read and sent at return"
	case p.Return == nil:
		shape = "one record for a call, sent at entry"
	case p.Entry == nil:
		shape = "one record for a call, sent at return"
	}
	fmt.Fprintf(b, "  attached by %s; %s\n", p.Method, shape)
	for i, it := range p.Items {
		if it.Predicate != nil {
			fmt.Fprintf(b, "  %-7s must hold: %s\n", phaseName(it.Phase), terminal.Name(p.ItemText(i)))
		}
	}
	explainSlots(b, "entry", p.Entry, p)
	explainSlots(b, "return", p.Return, p)
}

func phaseName(p expr.Phase) string {
	if p == expr.AtReturn {
		return "return"
	}
	return "entry"
}

func explainSlots(b *strings.Builder, phase string, h *layout.Half, p *plan.Probe) {
	if h == nil {
		return
	}
	for _, s := range h.Stores {
		label, what := "", ""
		if s.Capture >= 0 {
			label = p.Items[s.Item].Captures[s.Capture].Label
		}
		switch s.Part {
		case layout.PartTarget:
			what = " (what it points to)"
			if p.Items[s.Item].Captures[s.Capture].Value == nil {
				what = ""
			}
		case layout.PartAfter:
			what = " (again)"
		case layout.PartKept:
			label = expr.FormatTerm(s.Term, func(i int) string { return p.Params[i].Name })
			what = " (kept for the return)"
		}
		fmt.Fprintf(b, "  %-7s reads %d bytes to offset %d: %s%s, %s\n", phase, s.Size, s.Off, terminal.Name(label), what,
			btfprint.AppendTypeName(nil, s.Term.Type()))
	}
}

// explainProgram lists the functions that were generated for one half.
func explainProgram(b *strings.Builder, when string, functions []bpf.Subprogram) {
	for _, f := range functions {
		fmt.Fprintf(b, "\n  %s, %s:\n", when, f.Name)
		said := ""
		for i, ins := range f.Insns {
			if ins.Source() != nil && ins.Source().String() != said {
				said = ins.Source().String()
				fmt.Fprintf(b, "    ; %s\n", terminal.Name(said))
			}
			if label := ins.Symbol(); label != "" {
				fmt.Fprintf(b, "  %s:\n", label)
			}
			text, ok := codegen.FormatInstruction(ins)
			if !ok {
				text = fmt.Sprint(ins)
			}
			fmt.Fprintf(b, "%8d: (%02x) %s\n", i, uint8(ins.OpCode), text)
		}
	}
}
