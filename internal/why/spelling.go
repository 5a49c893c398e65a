// SPDX-License-Identifier: Apache-2.0

package why

import (
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/errno"
)

// seenErrno is the error that the program sees.
func (f *Failure) seenErrno() uint64 {
	if interrupted(f.Errno) {
		return uint64(unix.EINTR)
	}
	return f.Errno
}

// spellings returns the messages of an error, in small letters.
func spellings(e uint64) (messages []string) {
	if message := errorMessage(e); message != "" {
		messages = append(messages, strings.ToLower(message))
	}
	return append(messages, otherMessages[errorName(e)]...)
}

// otherMessages are those of other C libraries than glibc, as musl, and of other programs.
var otherMessages = map[string][]string{
	"EADDRINUSE":    {"address in use"},
	"EADDRNOTAVAIL": {"address not available"},
	"EAFNOSUPPORT":  {"address family not supported"},
	"EBUSY":         {"resource busy"},
	"ECHILD":        {"no child process"},
	"ECONNABORTED":  {"connection aborted"},
	"EDEADLK":       {"resource deadlock would occur"},
	"EDOM":          {"domain error"},
	"EDQUOT":        {"quota exceeded"},
	"EHOSTUNREACH":  {"host is unreachable"},
	"EILSEQ":        {"illegal byte sequence"},
	"EINPROGRESS":   {"operation in progress"},
	"EIO":           {"i/o error"},
	"EISCONN":       {"socket is connected"},
	"ELOOP":         {"symbolic link loop"},
	"EMFILE":        {"no file descriptors available"},
	"EMSGSIZE":      {"message too large"},
	"ENAMETOOLONG":  {"filename too long"},
	"ENETRESET":     {"connection reset by network"},
	"ENETUNREACH":   {"network unreachable"},
	"ENODEV":        {"no such device"},
	"ENOMEM":        {"out of memory"},
	"ENOTCONN":      {"socket not connected"},
	"ENOTSOCK":      {"not a socket"},
	"ENOTTY":        {"not a tty"},
	"EOPNOTSUPP":    {"not supported"},
	"EOVERFLOW":     {"value too large for data type"},
	"ERANGE":        {"result not representable"},
	"ESHUTDOWN":     {"cannot send after socket shutdown"},
	"ESPIPE":        {"invalid seek"},
	"ETIME":         {"device timeout"},
	"ETIMEDOUT":     {"operation timed out"},
	"ETXTBSY":       {"text file busy"},
	"EXDEV":         {"cross-device link"},
}

// longerMessages returns, by the message of an error, those of other errors that have it within: "protocol not
// supported" says nothing of an operation that is not supported.
var longerMessages = sync.OnceValue(func() map[string][]string {
	all := map[uint64][]string{}
	for _, name := range errno.All() {
		if e, ok := errno.Number(name); ok {
			all[uint64(e)] = spellings(uint64(e))
		}
	}
	longer := map[string][]string{}
	for e, messages := range all {
		for _, m := range messages {
			for other, candidates := range all {
				for _, c := range candidates {
					if other != e && c != m && strings.Contains(c, m) {
						longer[m] = append(longer[m], c)
					}
				}
			}
		}
	}
	return longer
})

// findMessage returns where a text in small letters has a message of an error that is no part of a longer one of
// another error, and how long that is. Without one, at is -1.
func findMessage(lower string, e uint64) (at, n int) {
	for _, m := range spellings(e) {
		for from := 0; ; {
			i := strings.Index(lower[from:], m)
			if i < 0 {
				break
			}
			if i += from; !withinLonger(lower, i, m) {
				return i, len(m)
			}
			from = i + len(m)
		}
	}
	return -1, 0
}

// withinLonger reports whether a message in a text is a part of a longer one of another error.
func withinLonger(lower string, at int, message string) bool {
	return slices.ContainsFunc(longerMessages()[message], func(longer string) bool {
		before, _, _ := strings.Cut(longer, message)
		return strings.HasSuffix(lower[:at], before) && strings.HasPrefix(lower[at-len(before):], longer)
	})
}
