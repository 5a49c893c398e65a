// SPDX-License-Identifier: Apache-2.0

package why

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/errno"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// A Failure is a system call that has failed.
type Failure struct {
	Time     uint64 // CLOCK_MONOTONIC ns, of its end
	PID, TID uint32 // in the initial PID namespace
	Inner    bpf.Inner
	Comm     string // the thread's name
	Number   uint64
	foreign  foreignCall
	// Function serves the system call, or the request by netlink: "__x64_sys_openat"; "" if that is not known.
	Function string
	Params   []kernel.Field // nil if they are not known
	// Types are those of Params, by BTF where it has them; nil: they are not known.
	Types []btf.Type
	Args  [words]uint64
	// Texts are what the arguments point to, if that is a string.
	Texts [words]*string
	Errno uint64
	// seccomp says that a filter of seccomp has refused it: no function has served it.
	seccomp bool
	filters *filters    // of its thread, if seccomp has refused it; nil: they were not read
	ip      uint64      // where the process makes it
	signal  *signalSeen // that has interrupted it; nil: none is known
	request *request    // by netlink, in place of a system call; nil: it is none
	user    *userStack  // of the process; nil: it was not taken, or not kept
	skipped int         // calls before it that failed in the same way and were forgotten
}

// A manner is how a call has failed, by which later runs know it.
type manner struct {
	number   uint64
	function string
	errno    uint64
}

func (f *Failure) manner() manner { return manner{f.Number, f.Function, f.Errno} }

// Errors that the kernel keeps to itself: a signal has interrupted the call.
const (
	restartSys     = 512
	restartNoIntr  = 513
	restartNoHand  = 514
	noIoctlCommand = 515 // none of them: ENOIOCTLCMD
	restartRestart = 516
)

// interrupted reports whether an error says that a signal has interrupted a call.
func interrupted(errno uint64) bool {
	return errno >= restartSys && errno <= restartRestart && errno != noIoctlCommand
}

// A signalSeen is a signal that was delivered.
type signalSeen struct {
	time    uint64
	pid     uint32
	tid     uint32
	number  uint64 // 0: the thread ends by no known signal
	flags   uint64 // of its action
	handler uint64
}

// An ending is the end of a thread by a signal.
type ending struct {
	time     uint64
	pid, tid uint32
	inner    bpf.Inner
	comm     string
	signal   uint64
}

// A userStack is one that has no names yet: most are never shown.
type userStack struct {
	event   event.Event // the thread and the time
	section bpf.Section
}

// newUserStack returns the stack that an event has; nil if it has none.
func newUserStack(e *event.Event) *userStack {
	s, ok := e.Tail.Section(bpf.SectionUserStack)
	if !ok {
		return nil
	}
	u := &userStack{event: *e, section: s}
	u.event.Data, u.event.Tail, u.section.Data = nil, nil, bytes.Clone(s.Data)
	return u
}

// size is how much memory it takes, about.
func (u *userStack) size() int { return len(u.section.Data) + int(unsafe.Sizeof(*u)) }

// UserStack returns the stack of the process as lines, named by t; nil if it was not taken.
func (f *Failure) UserStack(t *output.Tails) (stack []string) {
	if f.user == nil {
		return nil
	}
	text := t.AppendUserStack(nil, &f.user.event, f.user.section)
	all := lines(bytes.TrimRight(text, "\n"))
	if len(all) == 1 { // there is none, and why
		return []string{strings.TrimSpace(all[0])}
	}
	for _, l := range all[1:] {
		stack = append(stack, strings.TrimPrefix(l, pathIndent))
	}
	return stack
}

// A Killing is the end of a process by a signal.
type Killing struct {
	Signal string // "SIGKILL"
	Comm   string
	PID    uint32 // in the initial PID namespace
	Inner  bpf.Inner
	denied *denial // the system call for which seccomp has sent the signal; nil: none
}

// A denial is a system call that a filter of seccomp has refused.
type denial struct {
	time, number uint64
	tid          uint32
	foreign      foreignCall
	function     string // that would have served it; "" if that is not known
	ended        bool   // with an error: the process has gone on
}

// name says which system call it is: "system call setsid", "32-bit system call 39".
func (d *denial) name() string {
	f := Failure{Number: d.number, foreign: d.foreign, Function: d.function}
	if d.foreign != "" {
		return f.Name()
	}
	return "system call " + strings.TrimPrefix(f.Name(), "syscall ")
}

// filters are those of a thread that has ended, newest first.
type filters struct {
	time uint64
	tid  uint32
	list [][]unix.SockFilter
	// more says that there are more.
	more bool
}

// Name returns the name of the system call: "openat". Of a request by netlink it is "netlink".
func (f *Failure) Name() string {
	if f.request != nil {
		return "netlink"
	}
	if _, name, ok := strings.Cut(f.Function, "_sys_"); ok {
		return name
	}
	if f.foreign != "" {
		return string(f.foreign) + " system call " + strconv.FormatUint(f.Number%maxNumber, 10)
	}
	return "syscall " + strconv.FormatUint(f.Number, 10)
}

// Unsearched says why it is not looked for what has refused the call; "" if it is.
func (f *Failure) Unsearched() string {
	if f.foreign == "" {
		return ""
	}
	return fmt.Sprintf("the call is %s system call: the function that refuses one is not looked for", map[foreignCall]string{call32: "a 32-bit", callX32: "an x32"}[f.foreign])
}

// Output returns which descriptor of its output a command has made the call with, 1 or 2; 0 if it is neither.
func (f *Failure) Output() int {
	for i := range min(len(f.Params), words) {
		p := &f.Params[i]
		if fd := uint32(f.Args[i]); strings.Contains(p.Name, "fd") && !strings.HasSuffix(p.Decl, "*") && (fd == 1 || fd == 2) {
			return int(fd)
		}
	}
	return 0
}

// errorName returns the name of the error: "EINVAL".
func (f *Failure) errorName() string { return errorName(f.Errno) }

func errorName(e uint64) string {
	if name := errno.Name(e); name != "" {
		return name
	}
	return strconv.FormatUint(e, 10)
}

// Message returns what programs call the error: "invalid argument". Of errors that the kernel keeps to
// itself it is "", but for those of a call that a signal has interrupted: a program may see EINTR, or nothing.
func (f *Failure) Message() string {
	if interrupted(f.Errno) {
		return "interrupted"
	}
	return errorMessage(f.Errno)
}

func errorMessage(e uint64) string {
	text := syscall.Errno(e).Error()
	if strings.HasPrefix(text, "errno ") {
		return ""
	}
	return text
}

// String returns the call as it could stand in C: mkdir("/proc/a", 0777) = -ENOENT.
func (f *Failure) String() string {
	c := f.call()
	return string(c.append(nil))
}

// longText is how much of a string is shown.
const longText = 64

// appendArg appends an argument by the C type that the kernel declares.
func (f *Failure) appendArg(dst []byte, i int) []byte {
	v := f.Args[i]
	if i >= len(f.Params) {
		return appendWord(dst, v)
	}
	decl, name := f.Params[i].Decl, f.Params[i].Name
	switch {
	case f.isText(i):
		text := *f.Texts[i]
		return terminal.AppendQuoted(dst, []byte(text[:min(len(text), longText)]), len(text) > longText)
	case strings.HasSuffix(decl, "*"):
		if v == 0 {
			return append(dst, "NULL"...)
		}
		return strconv.AppendUint(append(dst, "0x"...), v, 16)
	case decl == "umode_t" && v != 0:
		return strconv.AppendUint(append(dst, '0'), v&0o7777, 8)
	case (name == "dfd" || strings.HasSuffix(name, "dirfd") || name == "olddfd" || name == "newdfd") && int32(v) == atCwd:
		return append(dst, "AT_FDCWD"...)
	}
	return f.appendNumber(dst, i)
}

// atCwd is AT_FDCWD.
const atCwd = -100

// dataTexts are pointers to void that some system calls take for strings.
var dataTexts = []string{"mount/data"}

// isText reports whether an argument is a string.
func (f *Failure) isText(i int) bool {
	if f.Texts[i] == nil || i >= len(f.Params) {
		return false
	}
	switch strings.TrimPrefix(f.Params[i].Decl, "const ") {
	case "char *":
		return true
	case "void *":
		return slices.Contains(dataTexts, f.Name()+"/"+f.Params[i].Name)
	}
	return false
}

// appendWord appends small numbers as such and all others, which are flags or addresses, in
// hexadecimal.
func appendWord(dst []byte, v uint64) []byte {
	if v < 1<<12 {
		return strconv.AppendUint(dst, v, 10)
	}
	return strconv.AppendUint(append(dst, "0x"...), v, 16)
}

// A Message is what a process has written to standard error.
type Message struct {
	Time uint64
	PID  uint32
	Text string
}

// A Seen is what the first run has seen, in the order of time.
type Seen struct {
	Calls    []Failure
	Messages []Message
	Status   int // the exit status of the command
	// Killed is the signal that has ended the command, or a process of it whose end the exit status
	// tells; nil: none has.
	Killed *Killing
	// Incomplete says that calls may be missing, since something was lost.
	Incomplete bool
	// goOn is how many processes that the command has started were there when it had ended.
	goOn int
	// Listened says that the programs that look for calls were switched on.
	Listened bool
	earlier  int // calls that have failed before, and were forgotten
	// forgotten are those of a command, by how they have failed. passed are those of them before the one that is
	// asked for by its number.
	forgotten map[manner]int
	passed    int
}
