// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/cilium/ebpf/btf"
	"github.com/spf13/cobra"

	"github.com/ksnoop/ksnoop/btfprint"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plural"
	"github.com/ksnoop/ksnoop/internal/symname"
)

// printFlags are the options of "ksnoop print".
type printFlags struct {
	source    kernelFlags // where types come from
	value     btfprint.ValueOptions
	compact   bool
	verbose   bool
	json      bool
	noTypes   bool
	noNames   bool
	namesOnly bool
	symbols   bool
	hex       bool
	bigEndian bool
	batch     bool
	offset    int64
	diff      string
}

func newPrintCommand() *cobra.Command {
	var f printFlags
	c := &cobra.Command{
		Use:   "print TYPE [FILE]",
		Short: "Print raw bytes as a value of a type",
		Long: strings.TrimSpace(`
print reads raw bytes from FILE, and prints them as a value of TYPE: what a BPF
map holds, a part of a core dump, a captured buffer. Without FILE, or if that is
"-", it reads the standard input. TYPE is the name of a type, with stars and
dimensions behind it if wanted: 'struct sk_buff', 'u32[4]', 'struct file *'.
Missing bytes end the text with "...".

With --batch, lines "TYPE HEX" are read, and one value is printed for each.`),
		Example: `  ksnoop print 'struct iphdr' packet.bin
  ksnoop print --json --offset 64 'struct list_head[2]' core.bin
  xxd -p packet.bin | ksnoop print --hex --compact 'struct iphdr'
  ksnoop print 'struct task_struct' --diff before.bin after.bin`,
		ValidArgsFunction: func(_ *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 || f.batch {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return completeType(&f.source, text)
		},
		RunE: func(c *cobra.Command, args []string) error {
			p := printing{flags: &f, in: c.InOrStdin(), out: c.OutOrStdout(), notes: c.ErrOrStderr()}
			if err := f.check(args); err != nil {
				return err
			}
			return p.run(args)
		},
	}
	f.register(c)
	return c
}

func (f *printFlags) register(c *cobra.Command) {
	flags := c.Flags()
	flags.SortFlags = false
	flags.BoolVar(&f.compact, "compact", false, "on one line")
	flags.BoolVar(&f.verbose, "verbose", false, "with the offset and size of each member")
	flags.BoolVar(&f.json, "json", false, "as JSON")
	flags.BoolVar(&f.value.ShowZeroes, "zeroes", false, "show members that are zero")
	flags.BoolVar(&f.noTypes, "no-types", false, "leave out types")
	flags.BoolVar(&f.noNames, "no-names", false, "leave out the names of members")
	flags.BoolVar(&f.namesOnly, "names-only", false, "show which members are not zero, not their values")
	flags.BoolVar(&f.value.Plain, "plain", false, "exactly as libbpf: characters one by one, flags as numbers")
	flags.BoolVar(&f.value.Readings, "readings", false, "show times, devices, modes, addresses and the like as people read them")
	flags.BoolVar(&f.value.Likely, "likely", false, "of a union show only the member that the bytes look like")
	flags.BoolVar(&f.symbols, "symbols", false, "name what pointers point to, by the running kernel's symbols")
	flags.IntVar(&f.value.MaxWidth, "width", 0, "cut lines to this `NUMBER` of bytes")
	flags.IntVar(&f.value.MaxDepth, "depth", 0, "show this `NUMBER` of levels of braces")
	flags.IntVar(&f.value.MaxElements, "elements", 0, "show this `NUMBER` of elements of an array")
	flags.StringVar(&f.value.Indent, "indent", "\t", "`TEXT` that each level is indented by")
	flags.Int64Var(&f.offset, "offset", 0, "skip this `NUMBER` of bytes of FILE")
	flags.BoolVar(&f.hex, "hex", false, "FILE holds the bytes as hexadecimal digits, in at most 16 MiB of text")
	flags.StringVar(&f.diff, "diff", "", "print what FILE changes compared with this earlier `FILE`")
	flags.BoolVar(&f.bigEndian, "big-endian", false, "the bytes come from a big-endian machine")
	flags.BoolVar(&f.batch, "batch", false, "read lines of TYPE HEX and print one value for each")
	f.source.add(flags)
}

// check refuses options that contradict each other and completes value.
func (f *printFlags) check(args []string) error {
	switch {
	case f.batch && len(args) > 1:
		return usagef("--batch takes at most one FILE")
	case f.batch && f.diff != "":
		return usagef("--batch and --diff exclude each other")
	case f.batch && (f.hex || f.offset != 0):
		return usagef("--hex and --offset do not go with --batch, whose lines hold the bytes")
	case !f.batch && len(args) == 0:
		return usagef("no TYPE given; try: ksnoop print 'struct iphdr' FILE")
	case !f.batch && len(args) > 2:
		return usagef("one TYPE and one FILE are enough; quote a TYPE that has blanks: 'struct sk_buff'")
	case f.compact && f.verbose:
		return usagef("--compact and --verbose exclude each other")
	case f.json && (f.compact || f.verbose || f.namesOnly || f.noTypes || f.noNames || f.diff != ""):
		return usagef("--json has no other form")
	case f.namesOnly && f.noNames:
		return usagef("--names-only and --no-names exclude each other")
	}
	for _, limit := range []struct {
		name string
		n    int64
	}{{"offset", f.offset}, {"width", int64(f.value.MaxWidth)}, {"depth", int64(f.value.MaxDepth)}, {"elements", int64(f.value.MaxElements)}} {
		if limit.n < 0 {
			return usagef("--%s %d: it cannot be negative", limit.name, limit.n)
		}
	}
	switch {
	case f.compact:
		f.value.Mode = btfprint.Compact
	case f.verbose:
		f.value.Mode = btfprint.Verbose
	}
	for _, hide := range []struct {
		on    bool
		piece btfprint.Pieces
	}{{f.noTypes || f.namesOnly, btfprint.HideTypes}, {f.noNames, btfprint.HideNames}, {f.namesOnly, btfprint.HideValues}} {
		if hide.on {
			f.value.Hide |= hide.piece
		}
	}
	return nil
}

// printing is one run of "ksnoop print".
type printing struct {
	flags    *printFlags
	in       io.Reader
	out      io.Writer
	notes    io.Writer
	view     *kernel.View
	printers map[string]*btfprint.Printer // by the spelling of their type
	buf      []byte
}

func (p *printing) run(args []string) error {
	view, closeView, err := p.flags.source.view()
	if err != nil {
		return err
	}
	defer closeView()
	p.view, p.printers = view, make(map[string]*btfprint.Printer)
	if p.flags.symbols {
		if err := p.nameSymbols(); err != nil {
			return err
		}
	}
	if p.flags.batch {
		return p.batch(args)
	}
	printer, err := p.printer(args[0])
	if err != nil {
		return err
	}
	raw, err := p.read(append(args, "-")[1], printer.Size())
	if err != nil {
		return err
	}
	if p.flags.diff == "" {
		return p.print(printer, raw)
	}
	before, err := p.read(p.flags.diff, printer.Size())
	if err != nil {
		return err
	}
	_, err = p.out.Write(printer.AppendDiff(nil, before, raw, &p.flags.value))
	return err
}

// nameSymbols has pointers named, by the kernel that runs here whatever --btf is.
func (p *printing) nameSymbols() error {
	running := kernel.Open(os.DirFS("/"))
	if err := running.Symbols(); err != nil {
		return err
	}
	p.flags.value.PointerName = func(dst []byte, addr uint64) []byte {
		s, ok := running.Symbol(addr)
		if !ok {
			return dst
		}
		return symname.AppendAt(dst, s.Name, s.Offset, s.Module)
	}
	return nil
}

func (p *printing) print(printer *btfprint.Printer, raw []byte) error {
	p.buf = p.buf[:0]
	if p.flags.json {
		p.buf = printer.AppendJSON(p.buf, raw, &p.flags.value)
	} else {
		p.buf = printer.AppendValue(p.buf, raw, &p.flags.value)
	}
	p.buf = append(p.buf, '\n')
	_, err := p.out.Write(p.buf)
	return err
}

// Limits of what is read of a file, which may be a device that never ends.
const (
	maxValue = 1 << 28 // bytes of a value
	maxHex   = 1 << 24 // bytes of text that is hexadecimal digits
)

// read returns up to size bytes of a file from --offset on.
func (p *printing) read(file string, size int) ([]byte, error) {
	r := p.in
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		r = f
	}
	if p.flags.hex {
		text, err := readMost(r, file, maxHex)
		if err != nil {
			return nil, err
		}
		raw, err := parseHex(string(text))
		if err != nil {
			return nil, usagef("%s: %w", file, err)
		}
		if p.flags.offset > int64(len(raw)) {
			return nil, p.beyond(int64(len(raw)), file)
		}
		return raw[p.flags.offset:], nil
	}
	if err := p.skip(r, file); err != nil {
		return nil, err
	}
	return readMost(io.LimitReader(r, int64(size)), file, maxValue)
}

// readMost reads all there is, which must not be more than a limit.
func readMost(r io.Reader, file string, most int64) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return nil, readError(file, err)
	}
	if int64(len(raw)) > most {
		return nil, usagef("%s: the most that is read is %d bytes, and there are more", file, most)
	}
	return raw, nil
}

// readError names the file, unless the error does.
func readError(file string, err error) error {
	if errors.As(err, new(*fs.PathError)) {
		return err
	}
	return fmt.Errorf("read %s: %w", file, err)
}

// skip goes on to --offset.
func (p *printing) skip(r io.Reader, file string) error {
	offset := p.flags.offset
	if f, ok := r.(*os.File); ok {
		info, err := f.Stat()
		regular := err == nil && info.Mode().IsRegular()
		switch {
		case regular && offset <= info.Size():
			if _, err := f.Seek(offset, io.SeekCurrent); err != nil {
				return readError(file, err)
			}
			return nil
		case regular && info.Size() > 0: // files of /proc have no size
			return p.beyond(info.Size(), file)
		}
	}
	n, err := io.CopyN(io.Discard, r, offset)
	if errors.Is(err, io.EOF) {
		return p.beyond(n, file)
	}
	if err != nil {
		return readError(file, err)
	}
	return nil
}

// beyond is the error of an offset that a file does not have.
func (p *printing) beyond(size int64, file string) error {
	return usagef("--offset %d is beyond the %s of %s", p.flags.offset, plural.Of(size, "byte{s}"), file)
}

// parseHex reads hexadecimal digits, by bytes or in one piece, with or without
// 0x, separated by blanks, commas or colons.
func parseHex(text string) ([]byte, error) {
	words := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\r\n,:", r) })
	var raw []byte
	for _, w := range words {
		digits := strings.TrimPrefix(strings.TrimPrefix(w, "0x"), "0X")
		if len(digits) == 1 {
			digits = "0" + digits
		}
		b, err := hex.DecodeString(digits)
		if err != nil {
			return nil, fmt.Errorf("%q is not hexadecimal", shorten(w, 40))
		}
		raw = append(raw, b...)
	}
	return raw, nil
}

func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "..."
}

// maxBatchLine is the longest line of a batch.
const maxBatchLine = 16 << 20

// batch prints the value of each line. A line that makes no sense is reported
// and the next one tried.
func (p *printing) batch(args []string) error {
	in := p.in
	if len(args) == 1 && args[0] != "-" {
		f, err := os.Open(args[0])
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxBatchLine)
	bad, n := 0, 0
	for lines.Scan() {
		n++
		line := strings.TrimSpace(lines.Text())
		if line == "" {
			continue
		}
		err := p.batchLine(line)
		var usage usageError
		if errors.As(err, &usage) {
			fmt.Fprintf(p.notes, "ksnoop: line %d: %v\n", n, err)
			bad++
			continue
		}
		if err != nil {
			return err
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return usagef("line %d is longer than %d bytes", n+1, maxBatchLine)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("line %d: %w", n+1, err)
	}
	if bad > 0 {
		return usagef("%d of %s could not be printed", bad, plural.Of(n, "line{s}"))
	}
	return nil
}

func (p *printing) batchLine(line string) error {
	cut := strings.LastIndexAny(line, " \t")
	if cut < 0 {
		return usagef("%q is not TYPE HEX", shorten(line, 40))
	}
	printer, err := p.printer(line[:cut])
	raw, hexErr := parseHex(line[cut+1:])
	if err == nil && hexErr != nil {
		err = usageError{hexErr}
	}
	if err != nil {
		if _, whole := p.printer(line); whole == nil {
			return usagef("%q lacks its bytes: a line is TYPE HEX", shorten(line, 40))
		}
		return err
	}
	return p.print(printer, raw)
}

// printer returns the printer of a type, compiled when it is asked for first.
func (p *printing) printer(spelling string) (*btfprint.Printer, error) {
	spelling = strings.Join(strings.Fields(spelling), " ")
	if printer, ok := p.printers[spelling]; ok {
		return printer, nil
	}
	t, err := p.lookUp(spelling)
	if err != nil {
		return nil, err
	}
	var order binary.ByteOrder = binary.LittleEndian
	if p.flags.bigEndian {
		order = binary.BigEndian
	}
	printer, err := btfprint.Compile(t, order)
	if err != nil {
		return nil, usagef("%s cannot be printed: %w", spelling, errors.Unwrap(err)) // which has another spelling of the type
	}
	p.printers[spelling] = printer
	return printer, nil
}

// typeName is what names of types look like.
var typeName = regexp.MustCompile(`^((struct|union|enum) +)?[A-Za-z_$][\w$ .]*$`)

// lookUp finds a type by its name, behind which stars and dimensions may stand.
func (p *printing) lookUp(spelling string) (btf.Type, error) {
	end := strings.IndexAny(spelling, "*[")
	if end < 0 {
		end = len(spelling)
	}
	name := strings.TrimSpace(spelling[:end])
	if !typeName.MatchString(name) {
		return nil, usagef("%s cannot be the name of a type, which looks like 'struct sock' or pid_t", strconv.Quote(shorten(spelling, 60)))
	}
	types, err := typesSpelled(p.view, name)
	if err != nil {
		return nil, err
	}
	if unqualified(name) == "void" {
		types = []btf.Type{(*btf.Void)(nil)}
	}
	if len(types) == 0 {
		return nil, usagef("there is no type %q%s", shorten(name, 60), typeHint(p.view, name))
	}
	if n := len(types); n > 1 {
		fmt.Fprintf(p.notes, "ksnoop: %d types are called %q; this is the first\n", n, name)
	}
	return derive(types[0], spelling[end:], spelling)
}

// derive puts stars and dimensions on a type.
func derive(t btf.Type, suffix, spelling string) (btf.Type, error) {
	var dims []uint32
	for suffix = strings.TrimSpace(suffix); suffix != ""; suffix = strings.TrimSpace(suffix) {
		switch {
		case suffix[0] == '*' && dims == nil:
			t, suffix = &btf.Pointer{Target: t}, suffix[1:]
		case suffix[0] == '[':
			digits, rest, closed := strings.Cut(suffix[1:], "]")
			if !closed {
				return nil, usagef(`%q: a closing "]" is missing`, shorten(spelling, 60))
			}
			n, err := strconv.ParseUint(strings.TrimSpace(digits), 0, 32)
			if err != nil {
				return nil, usagef("%q: %q is no number of elements", shorten(spelling, 60), shorten(digits, 20))
			}
			dims, suffix = append(dims, uint32(n)), rest
		default:
			return nil, usagef("%q is not understood at %q", shorten(spelling, 60), shorten(suffix, 20))
		}
	}
	index := &btf.Int{Name: "unsigned int", Size: 4}
	for i := len(dims) - 1; i >= 0; i-- {
		t = &btf.Array{Index: index, Type: t, Nelems: dims[i]}
	}
	return t, nil
}
