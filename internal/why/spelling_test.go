// SPDX-License-Identifier: Apache-2.0

package why

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"
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
		if got := withoutMessage(text, &f); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
