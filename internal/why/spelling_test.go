// SPDX-License-Identifier: Apache-2.0

package why

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/errno"
)

// TestLongestMessage: a text names the error whose message is the longest at a place, and another one only by a place of
// its own. The texts are those of glibc, of musl ("Not supported") and of Go, which writes small letters.
func TestLongestMessage(t *testing.T) {
	all := []unix.Errno{unix.EINTR, unix.ERESTART, unix.ENXIO, unix.ENODEV, unix.ENFILE, unix.EMFILE, unix.EPROTONOSUPPORT, unix.ESOCKTNOSUPPORT,
		unix.EOPNOTSUPP, unix.EPFNOSUPPORT, unix.EAFNOSUPPORT, unix.EXDEV, unix.EREMOTEIO, unix.EIO}
	for text, want := range map[string][]unix.Errno{
		"socket: Protocol not supported":                        {unix.EPROTONOSUPPORT},
		"socket: protocol not supported":                        {unix.EPROTONOSUPPORT},
		"socket: Socket type not supported":                     {unix.ESOCKTNOSUPPORT},
		"socket: Protocol family not supported":                 {unix.EPFNOSUPPORT},
		"socket: Address family not supported by protocol":      {unix.EAFNOSUPPORT},
		"socket: address family not supported":                  {unix.EAFNOSUPPORT},
		"open: No such device or address":                       {unix.ENXIO},
		"open /dev/tty: no such device or address":              {unix.ENXIO},
		"open: No such device":                                  {unix.ENODEV},
		"open: Too many open files in system":                   {unix.ENFILE},
		"open: too many open files in system":                   {unix.ENFILE},
		"open: Too many open files":                             {unix.EMFILE},
		"mount: Operation not supported":                        {unix.EOPNOTSUPP},
		"mount: Not supported":                                  {unix.EOPNOTSUPP},
		"link: Invalid cross-device link":                       {unix.EXDEV},
		"read: Interrupted system call should be restarted":     {unix.ERESTART},
		"read: Interrupted system call":                         {unix.EINTR},
		"read: remote I/O error":                                {unix.EREMOTEIO},
		"a: Protocol not supported\nb: Operation not supported": {unix.EPROTONOSUPPORT, unix.EOPNOTSUPP},
		"a: Not supported\nb: Protocol not supported":           {unix.EPROTONOSUPPORT, unix.EOPNOTSUPP},
		"a: protocol not supported, not supported":              {unix.EPROTONOSUPPORT, unix.EOPNOTSUPP},
		"a: No such device or address; b: No such device":       {unix.ENXIO, unix.ENODEV},
		"not supported: neither protocol nor socket type":       {unix.EOPNOTSUPP},
		"ENODEV: No such device or address":                     {unix.ENXIO, unix.ENODEV},
		"open: too many open files in the system":               {unix.EMFILE},
	} {
		var got []unix.Errno
		for _, e := range all {
			f := call("openat", e, "")
			if names(text, &f) {
				got = append(got, e)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
	calls := []Failure{call("socket", unix.EPROTONOSUPPORT, ""), call("fsetxattr", unix.EOPNOTSUPP, "")}
	if got, _, err := (&Seen{Calls: calls, Messages: []Message{{PID: 1, Text: "Protocol not supported"}}, Status: 1}).Choose(Wish{}); got != 0 || err != nil {
		t.Errorf("call %d, %v", got, err)
	}
}

// TestWithoutMessage: what is cut out of a text is what names the error.
func TestWithoutMessage(t *testing.T) {
	for text, want := range map[string]string{
		"protocol not supported, a: Not supported": "protocol not supported, a: ",
		"a: Protocol not supported":                "a: Protocol not supported",
		"a: Operation not supported":               "a: ",
	} {
		f := call("mount", unix.EOPNOTSUPP, "")
		if got := newTelling(text).without(f.seenErrno()); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestMusl: the texts are all of musl's strerror (1.2.3) that differ from glibc's. Each names its error and no other.
func TestMusl(t *testing.T) {
	for want, text := range map[unix.Errno]string{
		unix.EIO:           "I/O error",
		unix.ECHILD:        "No child process",
		unix.ENOMEM:        "Out of memory",
		unix.EBUSY:         "Resource busy",
		unix.EXDEV:         "Cross-device link",
		unix.EMFILE:        "No file descriptors available",
		unix.ENOTTY:        "Not a tty",
		unix.ESPIPE:        "Invalid seek",
		unix.EDOM:          "Domain error",
		unix.ERANGE:        "Result not representable",
		unix.EDEADLK:       "Resource deadlock would occur",
		unix.ENAMETOOLONG:  "Filename too long",
		unix.ELOOP:         "Symbolic link loop",
		unix.ETIME:         "Device timeout",
		unix.EOVERFLOW:     "Value too large for data type",
		unix.EILSEQ:        "Illegal byte sequence",
		unix.ENOTSOCK:      "Not a socket",
		unix.EMSGSIZE:      "Message too large",
		unix.EOPNOTSUPP:    "Not supported",
		unix.EADDRINUSE:    "Address in use",
		unix.EADDRNOTAVAIL: "Address not available",
		unix.ENETUNREACH:   "Network unreachable",
		unix.ENETRESET:     "Connection reset by network",
		unix.ECONNABORTED:  "Connection aborted",
		unix.EISCONN:       "Socket is connected",
		unix.ENOTCONN:      "Socket not connected",
		unix.ESHUTDOWN:     "Cannot send after socket shutdown",
		unix.ETIMEDOUT:     "Operation timed out",
		unix.EHOSTUNREACH:  "Host is unreachable",
		unix.EINPROGRESS:   "Operation in progress",
		unix.EDQUOT:        "Quota exceeded",
		unix.EOWNERDEAD:    "Previous owner died",
	} {
		var got []string
		for _, name := range errno.All() {
			e, ok := errno.Number(name)
			if f := call("openat", unix.Errno(e), ""); ok && unix.Errno(e) != want && names("a: "+text, &f) {
				got = append(got, name)
			}
		}
		if f := call("openat", want, ""); !names("a: "+text, &f) || got != nil {
			t.Errorf("%s: %v is named: %t, and %v", text, want, names("a: "+text, &f), got)
		}
	}
}
