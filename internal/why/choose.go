// SPDX-License-Identifier: Apache-2.0

package why

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/plural"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// A Wish says which failing calls are meant. The zero value leaves that to Seen.Choose.
type Wish struct {
	Syscall string // the name of the system call; "": any
	Errno   uint64 // 0: any
	Nth     int    // which of those, counted from 1; 0: the one that matters
}

// empty reports whether nothing is wished for.
func (w Wish) empty() bool { return w == Wish{} }

// fits reports whether a call is one of those that are meant.
func (w Wish) fits(f *Failure) bool {
	return (w.Syscall == "" || w.Syscall == f.Name()) && (w.Errno == 0 || w.Errno == f.Errno)
}

// options says which options ask for calls of a kind: "--errno asks"; "" if none does.
func (w Wish) options() string {
	switch {
	case w.Syscall != "" && w.Errno != 0:
		return "--syscall and --errno ask"
	case w.Syscall != "":
		return "--syscall asks"
	case w.Errno != 0:
		return "--errno asks"
	}
	return ""
}

// Why no call is chosen.
var (
	ErrNone      = errors.New("no system call has failed")
	errNoSuch    = errors.New("no system call as asked for has failed")
	errExpected  = errors.New("no system call has failed that programs do not expect to fail")
	ErrSucceeded = errors.New("the command succeeded")
	// ErrKilled says that Seen.Killed tells why.
	ErrKilled = errors.New("a signal has ended the command")
)

// Choose returns the index of the failing call that matters, and the reason, as choose does. If a signal has
// ended the command, no call is asked for and the command has named no error, it is the call that has brought
// the signal. If none has, it returns ErrKilled.
func (s *Seen) Choose(w Wish) (index int, reason string, err error) {
	if s.Killed != nil && w.empty() {
		all := fitting(s.Calls, w)
		said := slices.ContainsFunc(s.Messages, func(m Message) bool { return named(s.Calls, all, &m) >= 0 })
		if i := s.bringer(); !said && i >= 0 {
			return i, s.endedBy(i), nil
		} else if !said {
			return 0, "", ErrKilled
		}
	}
	return s.choose(w)
}

// choose returns the index of the failing call that matters, and the reason why it is that.
//
// It is the one that the last text on standard error names that names any: by the message of its
// error. Without such a text, it is the last one of a command that fails, other than those that
// programs expect to fail.
func (s *Seen) choose(w Wish) (index int, reason string, err error) {
	fit := fitting(s.Calls, w)
	if index, reason, err = s.chosen(fit, w); err != nil || reason != "" {
		return index, reason, err
	}
	if s.Status == 0 && w.empty() {
		return 0, "", ErrSucceeded
	}
	for _, i := range slices.Backward(fit) {
		if !expected(&s.Calls[i]) {
			return i, s.ofSeen("it is the last one that programs do not expect to fail"), nil
		}
	}
	if options := w.options(); options != "" {
		return fit[len(fit)-1], s.ofSeen("it is the last one that " + options + " for"), nil
	}
	return fit[len(fit)-1], s.ofSeen("it is the last one, and all are of kinds that programs expect to fail"), nil
}

// ChooseFirst is Choose for a process that goes on: without a text it is the first one that was
// waited for.
func (s *Seen) ChooseFirst(w Wish) (index int, reason string, err error) {
	fit := fitting(s.Calls, w)
	if index, reason, err = s.chosen(fit, w); err != nil || reason != "" {
		return index, reason, err
	}
	if !w.empty() {
		return fit[0], s.ofSeen("it is the first one asked for"), nil
	}
	for _, i := range fit {
		if !expected(&s.Calls[i]) {
			return i, s.ofSeen("it is the first one that programs do not expect to fail"), nil
		}
	}
	return 0, "", errExpected
}

// ofSeen restricts a reason to what was seen, if that may not be all.
func (s *Seen) ofSeen(reason string) string {
	if s.Incomplete {
		return reason + ", of the calls that were seen"
	}
	return reason
}

// fitting returns the indexes of the calls that are meant.
func fitting(calls []Failure, w Wish) (fit []int) {
	for i := range calls {
		if w.fits(&calls[i]) {
			fit = append(fit, i)
		}
	}
	return fit
}

// chosen returns the call that is asked for by its number or that a text names. If there is none,
// reason is "".
func (s *Seen) chosen(fit []int, w Wish) (index int, reason string, err error) {
	switch {
	case len(s.Calls) == 0:
		return 0, "", ErrNone
	case len(fit) == 0:
		return 0, "", errNoSuch
	case w.Nth > len(fit)+s.passed:
		n := len(fit) + s.passed
		return 0, "", fmt.Errorf("%w %d times: there %s %d", errNoSuch, w.Nth, plural.Text(n, "{is|are}"), n)
	case w.Nth > 0:
		return fit[w.Nth-1-s.passed], s.ofSeen("--nth asks for it"), nil
	}
	for _, m := range slices.Backward(s.Messages) {
		if i := named(s.Calls, fit, &m); i >= 0 {
			return i, fmt.Sprintf("%s wrote %s", commOf(s.Calls, &m), quoted(m.Text, &s.Calls[i])), nil
		}
	}
	return 0, "", nil
}

// named returns which call a message is about, or -1: one before it with an error that the text names. Of
// several it is one of the same process, then the one whose strings the text has, then one that is not
// expected to fail, then the last one.
func named(calls []Failure, fit []int, m *Message) int {
	best, most := -1, []int(nil)
	told := newTelling(m.Text)
	for _, i := range fit {
		f := &calls[i]
		if f.Time > m.Time || !told.names(f) {
			continue
		}
		same, unexpected := 0, 0
		if f.PID == m.PID {
			same = 1
		}
		if !expected(f) {
			unexpected = 1
		}
		whole, part := told.mentioned(f)
		if rank := []int{same, whole, part, unexpected}; slices.Compare(rank, most) >= 0 {
			best, most = i, rank
		}
	}
	return best
}

// names reports whether a text names the error of a call.
func names(text string, f *Failure) bool { return newTelling(text).names(f) }

// commOf returns the name that a process had when it wrote a message: that of its last call before it that failed, since
// execve gives another one; else that of its first one.
func commOf(calls []Failure, m *Message) string {
	comm := ""
	for i := range calls {
		c := &calls[i]
		if c.PID != m.PID {
			continue
		}
		if comm != "" && c.Time > m.Time {
			break
		}
		comm = terminal.Name(c.Comm)
	}
	return cmp.Or(comm, "the command")
}

// quoted is the line of a text that names the error of a call; the first one, if no line does by itself. Of a
// long line it is the beginning or, if only that names the error, the end.
func quoted(text string, f *Failure) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	at := max(slices.IndexFunc(lines, func(l string) bool { return names(l, f) }), 0)
	line, more := lines[at], at < len(lines)-1
	const long = 100
	begin, end := line[:min(len(line), long)], line[max(len(line)-long, 0):]
	if !names(begin, f) && names(end, f) {
		return "..." + string(terminal.AppendQuoted(nil, []byte(end), more))
	}
	return string(terminal.AppendQuoted(nil, []byte(begin), more || len(line) > long))
}

// expected reports whether programs make a call that fails so to find something out. Of one that has no name, the
// error tells: nearly all calls that fail with it are of that kind.
func expected(f *Failure) bool {
	if f.isSearch() {
		return true
	}
	name := f.Name()
	is := func(names ...string) bool { return slices.Contains(names, name) }
	xattr := strings.HasSuffix(name, "xattr")
	unnamed := f.foreign != ""
	switch f.errorName() {
	case "EAGAIN", "EINTR", "ECHILD", "ENOSYS", "EINPROGRESS", "ERESTARTSYS", "ERESTARTNOINTR", "ERESTARTNOHAND", "ERESTART_RESTARTBLOCK":
		return true
	case "ENOENT":
		return unnamed || is("open", "openat", "openat2", "access", "faccessat", "faccessat2", "stat", "lstat", "newfstatat", "newstat", "newlstat", "statx",
			"readlink", "readlinkat", "execve", "execveat", "unlink", "unlinkat", "statfs", "inotify_add_watch", "connect") || xattr // connect to the socket of a service that may run
	case "ENOTTY":
		return unnamed || is("ioctl")
	case "EINVAL":
		return is("readlink", "readlinkat", "arch_prctl", "rseq") || is("prctl") && f.Args[0] == unix.PR_SET_VMA // Go names its memory
	case "ENODATA", "EOPNOTSUPP":
		return xattr
	case "ESPIPE", "ENXIO":
		return is("lseek")
	case "ETIMEDOUT":
		return is("futex")
	case "EEXIST":
		return is("mkdir", "mkdirat")
	case "ENOTDIR":
		return is("execve", "newfstatat", "statx")
	}
	return false
}
