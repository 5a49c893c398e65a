// SPDX-License-Identifier: Apache-2.0

// Package pages reads the project's Markdown: its links, and its commands with what stands below each as
// their output. Tests and `make docs` run the commands and hold the output to that.
//
// Code blocks are indented by four columns or fenced. A line of a block that begins with a prompt is a command:
// "$ " where it runs anywhere, "# " where it needs root, so that it runs in a guest. Lines to the next prompt
// are its output. A block without a prompt whose lines begin with a known program is a list: what
// its commands mean stands behind three spaces or " #". A comment before a block says more:
//
//	<!-- run: guest -->             also where all prompts are "$ ", as for files that a guest has made
//	<!-- run: lines 12 -->          the first 12 lines are shown, then "..."
//	<!-- run: any numbers -->       numbers are not compared
//	<!-- run: any output -->        nothing is compared
//	<!-- not run: REASON -->
//
// Words may be joined by commas. A line "..." of an output stands for any lines.
package pages

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Kernel is the series whose guest runs the commands of pages.
const Kernel = "6.12"

// A Page is a Markdown file.
type Page struct {
	Name   string // its path from the top of the repository
	lines  []string
	Blocks []Block
}

// A Block is a code block that has commands.
type Block struct {
	Line     int    // of the page, from 1 on
	Guest    bool   // its commands run in a guest
	List     bool   // its commands stand without a prompt and have no output
	NotRun   string // the reason why its commands run nowhere
	lines    int    // shown of each output, 0 for all
	numbers  bool   // numbers of its output differ from run to run
	any      bool   // its output says nothing
	Commands []Command
}

// A Command is one line for a shell.
type Command struct {
	Text       string
	Remark     string // of a list: what stands behind
	Output     string
	indent     string
	start, end int // where its output lies in the page's lines
}

// Read reads README.md, the other pages at the top, and those of docs.
func Read(root fs.FS) ([]*Page, error) {
	var names []string
	for _, pattern := range []string{"*.md", "docs/*.md", "testdata/README.md"} {
		more, err := fs.Glob(root, pattern)
		if err != nil {
			return nil, err
		}
		names = append(names, more...)
	}
	var all []*Page
	for _, name := range names {
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return nil, err
		}
		p, err := Parse(name, string(text))
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

var remark = regexp.MustCompile(`^<!-- (run|not run): (.+) -->$`)

// Parse reads a page.
func Parse(name, text string) (*Page, error) {
	p := &Page{Name: name, lines: strings.SplitAfter(text, "\n")}
	told, at := "", 0
	for i := 0; i < len(p.lines); {
		line := strings.TrimRight(p.lines[i], "\n")
		end := p.blockEnd(i)
		switch {
		case end > i:
			b, err := p.block(i, end, told)
			if err != nil {
				return nil, fmt.Errorf("%s:%d: %w", name, i+1, err)
			}
			if len(b.Commands) > 0 {
				p.Blocks = append(p.Blocks, b)
			} else if told != "" {
				return nil, fmt.Errorf("%s:%d: the block below has no command", name, at+1)
			}
			told, i = "", end
			continue
		case told != "" && line != "":
			return nil, fmt.Errorf("%s:%d: no code block follows", name, at+1)
		case remark.MatchString(line):
			told, at = line, i
		}
		i++
	}
	return p, nil
}

const indented = "    "

// blockEnd returns where a code block ends that begins at line i; i if none does. Indented lines within an item or
// a paragraph are their text.
func (p *Page) blockEnd(i int) int {
	code := func(i int) bool { return i < len(p.lines) && strings.HasPrefix(p.lines[i], indented) }
	if strings.HasPrefix(p.lines[i], "```") {
		for end := i + 1; end < len(p.lines); end++ {
			if strings.HasPrefix(p.lines[end], "```") {
				return end + 1
			}
		}
		return len(p.lines)
	}
	if !code(i) || i > 0 && strings.TrimSpace(p.lines[i-1]) != "" && !strings.HasPrefix(p.lines[i-1], "<!--") {
		return i
	}
	end := i
	for next := i; next < len(p.lines); next++ {
		if code(next) {
			end = next + 1
		} else if strings.TrimSpace(p.lines[next]) != "" {
			break
		}
	}
	return end
}

// listed matches the programs that a command without a prompt may begin with.
var listed = regexp.MustCompile(`^(sudo |\./)*(ksnoop|make|go|apt|apt-get|dpkg|rpm|tar|ssh|bpftrace|retsnoop|bpfsnoop|perf|[a-z]+-bpfcc)( |$)`)

// block reads the block of these lines.
func (p *Page) block(start, end int, told string) (Block, error) {
	b := Block{Line: start + 1}
	indent, first, last := indented, start, end
	if strings.HasPrefix(p.lines[start], "```") {
		indent, first, last = "", start+1, end-1
	}
	for i := first; i < last; i++ {
		line, ok := strings.CutPrefix(strings.TrimRight(p.lines[i], "\n"), indent)
		prompt, root := command(line)
		switch {
		case !ok: // an empty line
		case prompt != "":
			from := i
			for strings.HasSuffix(prompt, `\`) && i+1 < last {
				i++
				prompt = strings.TrimSuffix(prompt, `\`) + strings.TrimSpace(p.lines[i])
			}
			b.finish(from)
			b.Commands = append(b.Commands, Command{Text: prompt, indent: indent, start: i + 1})
			b.Guest = b.Guest || root
		case listed.MatchString(line) && (i == first || b.List):
			b.List = true
			text, remark := withRemark(line)
			b.Commands = append(b.Commands, Command{Text: text, Remark: remark, indent: indent, start: i + 1, end: i + 1})
		}
	}
	b.finish(last)
	for i, c := range b.Commands {
		b.Commands[i].Output = p.output(c)
	}
	return b, b.tell(told)
}

// finish ends the output of the last command.
func (b *Block) finish(at int) {
	if n := len(b.Commands); n > 0 && !b.List {
		b.Commands[n-1].end = at
	}
}

// command returns what stands behind a prompt. Prometheus has lines "# HELP".
func command(line string) (text string, root bool) {
	if text, ok := strings.CutPrefix(line, "$ "); ok {
		return text, false
	}
	text, root = strings.CutPrefix(line, "# ")
	if !root || text == "" || text[0] < 'a' || text[0] > 'z' {
		return "", false
	}
	return text, true
}

var meaning = regexp.MustCompile(`(   +| +# )(.*)$`)

// withRemark parts a command of a list from what stands behind it.
func withRemark(line string) (text, remark string) {
	if m := meaning.FindStringSubmatchIndex(line); m != nil {
		return line[:m[0]], line[m[4]:m[5]]
	}
	return line, ""
}

func (p *Page) output(c Command) string {
	var text strings.Builder
	for _, line := range p.lines[c.start:c.end] {
		text.WriteString(strings.TrimPrefix(line, c.indent))
	}
	return text.String()
}

// tell reads the comment before a block.
func (b *Block) tell(told string) error {
	m := remark.FindStringSubmatch(told)
	if m == nil {
		return nil
	}
	if m[1] == "not run" {
		b.NotRun = m[2]
		return nil
	}
	for word := range strings.SplitSeq(m[2], ", ") {
		lines, isLines := strings.CutPrefix(word, "lines ")
		switch {
		case isLines:
			n, err := strconv.Atoi(lines)
			if err != nil || n < 1 {
				return fmt.Errorf("%q is no number of lines", lines)
			}
			b.lines = n
		case word == "guest":
			b.Guest = true
		case word == "any numbers":
			b.numbers = true
		case word == "any output":
			b.any = true
		default:
			return fmt.Errorf("%q is none of guest, lines N, any numbers, any output", word)
		}
	}
	return nil
}

// noDebugInfo begins a notice of every run with stacks on a kernel whose debug info is not installed. Pages leave it out.
const noDebugInfo = "ksnoop: stacks without source lines: "

// shown is what a page shows of what a command has printed.
func (b Block) shown(printed string) string {
	var lines []string
	for line := range strings.SplitSeq(strings.Trim(printed, "\n"), "\n") {
		if strings.HasPrefix(line, noDebugInfo) {
			continue
		}
		lines = append(lines, strings.TrimRight(line, " \t\r"))
	}
	if b.lines > 0 && len(lines) > b.lines {
		lines = append(lines[:b.lines], "...")
	}
	text := strings.Join(lines, "\n")
	if text != "" {
		text += "\n"
	}
	return text
}

// A Result is what a command has printed.
type Result struct {
	Block   Block
	Command Command
	printed string
}

// Differs says how a result differs from the page; "" if it does not.
func (r Result) Differs() string {
	written := strings.TrimSpace(r.Command.Output) != ""
	if r.Block.any && written || r.Block.NotRun != "" || r.Block.List {
		return ""
	}
	return difference(r.Command.Output, r.Block.shown(r.printed), r.Block.numbers, strings.Contains(r.Command.Text, " -- "))
}

// Updated returns the page's text with the output of those commands that have printed something else.
func (p *Page) Updated(results []Result) string {
	lines := slices.Clone(p.lines)
	slices.SortFunc(results, func(a, b Result) int { return cmp.Compare(b.Command.start, a.Command.start) })
	for _, r := range results {
		if r.Differs() == "" {
			continue
		}
		var fresh []string
		for line := range strings.Lines(r.Block.shown(r.printed)) {
			if line != "\n" {
				line = r.Command.indent + line
			}
			fresh = append(fresh, line)
		}
		// The empty lines before the next command stay.
		end := r.Command.end
		for end > r.Command.start && strings.TrimSpace(lines[end-1]) == "" {
			end--
		}
		lines = slices.Replace(lines, r.Command.start, end, fresh...)
	}
	return strings.Join(lines, "")
}

// Dir is the folder of the page.
func (p *Page) Dir() string { return path.Dir(p.Name) }
