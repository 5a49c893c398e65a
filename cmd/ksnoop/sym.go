// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/ianlancetaylor/demangle"
	"github.com/spf13/cobra"

	"github.com/ksnoop/ksnoop/internal/debuginfo"
	"github.com/ksnoop/ksnoop/internal/debuginfo/find"
	"github.com/ksnoop/ksnoop/internal/elfhead"
	"github.com/ksnoop/ksnoop/internal/regular"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// symFlags are the options of "ksnoop sym". Their letters are addr2line's.
type symFlags struct {
	file, section                        string
	kernel                               symbolFlags
	addresses, pretty, basenames, column bool
	functions, inlines, demangle         bool
}

func newSymCommand() *cobra.Command {
	var f symFlags
	c := &cobra.Command{
		Use:   "sym [ADDRESS]...",
		Short: "Show which functions and source lines addresses are in",
		Long: strings.TrimSpace(`
sym prints the function and the source line of each ADDRESS, and those that it
was inlined into, as "addr2line -f -i" does. An ADDRESS is hexadecimal, or a
symbol with or without an offset. Without any they are read from the standard
input, one a line, and answered as they come. Where nothing is known the answer is
"??"; an ADDRESS argument that names no symbol is an error as well, with status 2.

Addresses are those of the running kernel, or with --exe those in the file. Paths
of the kernel's sources are those in the source tree, those of a file whole.
A file without debug info answers with the functions of its symbol table.

In an object file or a kernel module an address is an offset in a section. Write
.init.text+0x10, or choose the section with --section; otherwise it is .text, or
the first section of code that is large enough.`),
		Example: "  ksnoop sym ffffffff812a4c30\n  ksnoop sym vfs_read+0x4c\n  ksnoop sym -e vmlinux -a < addresses\n  ksnoop sym -e nf_tables.ko .init.text+0x10",
		RunE: func(c *cobra.Command, args []string) error {
			return f.run(args, c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr())
		},
		ValidArgsFunction: completeSpec(new(kernelFlags), &f.kernel, true),
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringVarP(&f.file, "exe", "e", "", "read debug info from `FILE`, addresses are as in it")
	flags.StringVarP(&f.section, "section", "j", "", "addresses are offsets in the section `NAME` of the file")
	f.kernel.addFile(flags)
	flags.BoolVarP(&f.addresses, "addresses", "a", false, "print each address before what is at it")
	flags.BoolVarP(&f.pretty, "pretty-print", "p", false, "print each function and its line on one line")
	flags.BoolVarP(&f.basenames, "basenames", "s", false, "leave out the folders of files")
	flags.BoolVarP(&f.demangle, "demangle", "C", false, "print names of C++ and Rust as in the source: ns::f(int) for _ZN2ns1fEi")
	flags.BoolVar(&f.column, "column", false, "also print the column")
	flags.BoolVarP(&f.functions, "functions", "f", true, "print functions, as is done anyhow")
	flags.BoolVarP(&f.inlines, "inlines", "i", true, "print inlined functions, as is done anyhow")
	return c
}

func (f *symFlags) run(args []string, r io.Reader, w, stderr io.Writer) error {
	if f.file != "" && f.kernel.vmlinux != "" {
		return usagef("--exe takes addresses as in the file and --vmlinux those of the running kernel: give one of them")
	}
	if f.file == "" && f.section != "" {
		return usagef("--section is one of a file: give --exe as well")
	}
	source, err := f.open(stderr)
	if err != nil {
		return err
	}
	defer source.close()
	out := bufio.NewWriter(w)
	s := symbolizer{flags: f, source: source, w: out}
	if len(args) > 0 {
		err = s.answer(args)
	} else {
		err = s.stream(r)
	}
	if left := out.Flush(); !errors.Is(err, left) { // an error once, although out returns it from then on
		err = errors.Join(err, left)
	}
	if err == nil {
		err = s.unknown(args)
	}
	if missing := source.missing(); missing != nil {
		fmt.Fprintln(stderr, "ksnoop: inlined functions are missing:", strings.ReplaceAll(missing.Error(), "\n", "; "))
	}
	return err
}

// open opens the file, or the running kernel.
func (f *symFlags) open(stderr io.Writer) (symSource, error) {
	if f.file == "" {
		return newKernelSource("/", &f.kernel, stderr)
	}
	info, err := openDebugInfo(f.file, stderr)
	if err != nil {
		return nil, err
	}
	if f.section != "" && !info.HasSection(f.section) {
		return nil, errors.Join(fmt.Errorf("%s: no section %s is loaded", f.file, f.section), info.Close())
	}
	return &fileSource{Info: info, file: f.file, section: f.section, stderr: stderr}, nil
}

// openDebugInfo opens a file with debug info. If it has none, but some is installed for its build ID, that is opened, and stderr told;
// otherwise its symbols are all there is.
func openDebugInfo(file string, stderr io.Writer) (*debuginfo.Info, error) {
	info, err := debuginfo.Open(file, debuginfo.Options{Apart: true})
	if !errors.Is(err, debuginfo.ErrNone) {
		return info, err
	}
	if id, err := buildID(file); err == nil {
		for _, installed := range find.Installed("/", id, find.CacheFolders(os.Getenv)) {
			info, err := openBuild(installed, id)
			if err != nil {
				fmt.Fprintf(stderr, "ksnoop: %s has no debug info; %s: %v\n", terminal.Name(file), terminal.Name(installed), err)
				continue
			}
			fmt.Fprintf(stderr, "ksnoop: %s has no debug info; %s has it\n", terminal.Name(file), terminal.Name(installed))
			return info, nil
		}
	}
	return debuginfo.Open(file, debuginfo.Options{Stripped: true, Apart: true})
}

var errOtherBuild = errors.New("it is of another build")

// openBuild opens the debug info of a build.
func openBuild(file string, id find.BuildID) (*debuginfo.Info, error) {
	own, err := buildID(file)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(own, id) {
		return nil, errOtherBuild
	}
	return debuginfo.Open(file, debuginfo.Options{Apart: true})
}

func buildID(file string) (find.BuildID, error) {
	r, err := regular.Open(file)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	f, err := elfhead.Open(r)
	if err != nil {
		return nil, err
	}
	return find.ELFBuildID(f)
}

// A symbolizer prints what is at addresses.
type symbolizer struct {
	flags  *symFlags
	source symSource
	w      *bufio.Writer
	frames []debuginfo.Frame
	line   []byte
}

// stream answers the lines that are there as soon as no more of them come. Of
// many it waits a moment for more: to look up all at once is much faster, and
// who writes so many does not wait for each.
func (s *symbolizer) stream(r io.Reader) error {
	const (
		many  = 256
		most  = 1 << 20
		pause = 2 * time.Millisecond
	)
	blocks := make(chan []string, 16)
	var readErr error // when blocks is closed
	go func() {
		defer close(blocks)
		readErr = readBlocks(r, blocks)
	}()
	for lines := range blocks {
		for open := true; open && len(lines) < most; {
			wait := time.Duration(0)
			if len(lines) >= many {
				wait = pause
			}
			var more []string
			select {
			case more, open = <-blocks:
			case <-time.After(wait):
				open = false
			}
			lines = append(lines, more...)
		}
		if err := errors.Join(s.answer(lines), s.w.Flush()); err != nil {
			return err
		}
	}
	if readErr != nil {
		return fmt.Errorf("read addresses: %w", readErr)
	}
	return nil
}

// maxAddressLine is the longest line of addresses. The kernel's symbols have up to
// 511 bytes, those of C++ and Rust some thousands.
const maxAddressLine = 1 << 16

// readBlocks sends the lines that r gives at a time.
func readBlocks(r io.Reader, blocks chan<- []string) error {
	in := bufio.NewReaderSize(r, maxAddressLine)
	var lines []string
	for n := 1; ; n++ {
		text, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			text, err = nil, usagef("line %d is longer than %d bytes", n, maxAddressLine)
		}
		if line := string(bytes.TrimSpace(text)); line != "" {
			lines = append(lines, line)
		}
		waiting, _ := in.Peek(in.Buffered()) // so many are there, none can be missing
		if len(lines) > 0 && (err != nil || bytes.IndexByte(waiting, '\n') < 0) {
			blocks <- lines
			lines = nil
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// answer prints what is at each of the addresses. Many are looked up at once.
func (s *symbolizer) answer(texts []string) error {
	addrs := make([]uint64, len(texts))
	known := make([]bool, len(texts))
	for i, text := range texts {
		addrs[i], known[i] = s.parse(text)
	}
	const many = 16
	var all [][]debuginfo.Frame
	if len(addrs) >= many {
		all = s.source.lookupAll(addrs)
	}
	for i, addr := range addrs {
		switch {
		case !known[i]:
			s.frames = s.frames[:0]
		case all != nil:
			s.frames = append(s.frames[:0], all[i]...)
		default:
			s.frames = s.source.lookup(s.frames[:0], addr)
		}
		if known[i] {
			s.frames = s.source.finish(s.frames, addr)
		}
		if err := s.source.err(); err != nil {
			return err // an answer would say that there is nothing
		}
		s.print(addr, known[i])
	}
	return nil
}

// unknown returns an error for arguments that are neither an address nor a known
// symbol: they were answered with "??", as addr2line does, and are mistyped.
func (s *symbolizer) unknown(args []string) error {
	var errs []error
	for _, text := range args {
		if _, known := s.parse(text); known || isAddress(text) {
			continue
		}
		name, _, _ := strings.Cut(text, "+")
		if hint, mistyped := s.source.mistyped(name); mistyped {
			errs = append(errs, usagef("%q is neither an address nor a symbol, with or without an offset%s", text, hint))
		}
	}
	return errors.Join(errs...)
}

// isAddress reports whether a text is a number, whatever is there.
func isAddress(text string) bool {
	_, err := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 64)
	return err == nil
}

// parse reads an address, or the symbol and offset of one. What is not known is
// still printed as it was given, if it is a number.
func (s *symbolizer) parse(text string) (uint64, bool) {
	if addr, err := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 64); err == nil {
		if at, ok := s.source.address(addr); ok {
			return at, true
		}
		return addr, false
	}
	// The kernel writes "nft_do_chain+0x1f0/0x6a0 [nf_tables]".
	text, module, _ := strings.Cut(text, " [")
	name, offset, plus := strings.Cut(text, "+")
	var n uint64
	if plus {
		offset, _, _ = strings.Cut(offset, "/") // the size
		var err error
		if n, err = strconv.ParseUint(offset, 0, 64); err != nil {
			return 0, false
		}
	}
	return s.source.named(name, n, strings.TrimSuffix(module, "]"))
}

func (s *symbolizer) print(addr uint64, known bool) {
	if len(s.frames) == 0 {
		s.frames = append(s.frames, debuginfo.Frame{})
	}
	b := s.line[:0]
	if s.flags.addresses {
		if known {
			b = s.source.appendAddress(b, addr)
		} else {
			b = appendAddress(b, addr)
		}
		if s.flags.pretty {
			b = append(b, ": "...)
		} else {
			b = append(b, '\n')
		}
	}
	for i := range s.frames {
		if i > 0 && s.flags.pretty {
			b = append(b, " (inlined by) "...)
		}
		b = s.flags.appendFrame(b, &s.frames[i])
	}
	s.line = b
	// An error stays with the writer until it is flushed.
	_, _ = s.w.Write(b)
}

// demangled returns a name as it is in the source, or as it is if it is none that
// a compiler made up.
func demangled(name string) string {
	const mostBits = 16 // a few bytes may stand for a name without end
	return demangle.Filter(name, demangle.MaxLength(mostBits))
}

func (f *symFlags) appendFrame(b []byte, frame *debuginfo.Frame) []byte {
	file := frame.File
	name := cmp.Or(frame.Linkage, frame.Func, "??")
	if f.demangle {
		name = demangled(name)
	}
	if file == "" {
		file = "??"
	} else if f.basenames {
		file = path.Base(file)
	}
	b = terminal.AppendName(b, name)
	if f.pretty {
		b = append(b, " at "...)
	} else {
		b = append(b, '\n')
	}
	b = terminal.AppendName(b, file)
	b = append(b, ':')
	if frame.Line == 0 {
		b = append(b, '?')
	} else {
		b = strconv.AppendUint(b, uint64(frame.Line), 10)
	}
	if f.column {
		b = strconv.AppendUint(append(b, ':'), uint64(frame.Column), 10)
	}
	return append(b, '\n')
}
