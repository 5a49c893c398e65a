// SPDX-License-Identifier: Apache-2.0

package btfprint

import (
	"bytes"
	"math"
	"net/netip"
	"strconv"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/errno"
	"github.com/ksnoop/ksnoop/internal/qualifier"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// A shape is what a known type must look like; the name alone proves nothing.
type shape struct {
	known   known
	kind    kind
	minSize uint32
	maxSize uint32
}

func knownByName(name string) (shape, bool) {
	switch name {
	case "ktime_t":
		return shape{knownTime, kindInt, 8, 8}, true
	case "dev_t":
		return shape{knownDev, kindInt, 4, 4}, true
	case "umode_t":
		return shape{knownMode, kindInt, 2, 2}, true
	case "gfp_t":
		return shape{knownGFP, kindInt, 4, 4}, true
	case "kuid_t", "kgid_t", "kprojid_t", "vfsuid_t", "vfsgid_t", "refcount_t", "refcount_struct",
		"atomic_t", "atomic64_t", "atomic_long_t":
		return shape{knownNumber, kindStruct, 4, 8}, true
	case "__be16":
		return shape{knownBig, kindInt, 2, 2}, true
	case "__be32":
		return shape{knownBig, kindInt, 4, 4}, true
	case "__be64":
		return shape{knownBig, kindInt, 8, 8}, true
	case "in_addr":
		return shape{knownIP4, kindStruct, 4, 4}, true
	case "in6_addr":
		return shape{knownIP6, kindStruct, 16, 16}, true
	case "sockaddr", "sockaddr_storage", "__kernel_sockaddr_storage", "sockaddr_in", "sockaddr_in6", "sockaddr_un":
		return shape{knownSocket, kindStruct, 16, 4096}, true
	case "list_head":
		return shape{knownList, kindStruct, 16, 16}, true
	case "qstr":
		return shape{knownName, kindStruct, 16, 16}, true
	}
	return shape{}, false
}

// known looks for a known name among the typedefs from t to its body.
func (c *compiler) known(t btf.Type, id uint32) known {
	b := &c.p.bodies[id]
	for range maxNesting {
		if s, ok := knownByName(t.TypeName()); ok {
			if b.kind != s.kind || b.size < s.minSize || b.size > s.maxSize {
				return unknown
			}
			if s.known == knownNumber {
				if _, ok := c.p.onlyNumber(b); !ok {
					return unknown
				}
			}
			return s.known
		}
		layer, inner := qualifier.Outer(t)
		if layer&(qualifier.All|qualifier.Typedef) == 0 {
			return unknown
		}
		t = inner
	}
	return unknown
}

// onlyNumber returns the integer that is the whole content of a struct.
func (p *Printer) onlyNumber(b *body) (*body, bool) {
	for b.kind == kindStruct && b.n == 1 {
		f := &p.fields[b.first]
		inner := &p.bodies[f.body]
		if f.bits > 0 || inner.size != b.size {
			return nil, false
		}
		b = inner
	}
	return b, b.kind == kindInt
}

// knownMember is known for a member, whose name may tell too.
func (c *compiler) knownMember(m *btf.Member, id uint32) known {
	b := &c.p.bodies[id]
	k := c.known(m.Type, id)
	switch {
	case k == knownBig && b.size == 4 && strings.HasSuffix(m.Name, "addr"):
		return knownIP4
	case k == unknown && b.kind == kindInt && b.signed && b.size >= 4 && namesError(m.Name):
		return knownErrno
	case k == unknown && b.kind == kindBytes && b.n == 6 && !b.isChar && namesHardware(m.Name):
		return knownMAC
	}
	return k
}

// namesHardware reports whether 6 bytes with this name are a hardware address.
func namesHardware(name string) bool {
	for _, part := range []string{"addr", "mac", "bssid", "dest", "source"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// namesError reports whether a member with this name holds an error number.
func namesError(name string) bool {
	switch name {
	case "ret", "retval", "rc", "res", "result":
		return true
	}
	for part := range strings.SplitSeq(name, "_") {
		// Not "overrun" or "interrupt".
		if strings.HasPrefix(part, "err") || strings.HasSuffix(part, "err") || strings.HasSuffix(part, "error") || strings.HasSuffix(part, "errno") {
			return true
		}
	}
	return false
}

// reading writes a well-known type as people read it. It returns false, without writing,
// for a value that the type should not have.
func (w *walker) reading(f *field, b *body, off int) ([]byte, bool) {
	if f.known == unknown || f.bits > 0 || off+int(b.size) > len(w.raw) {
		return w.dst, false
	}
	raw := w.raw[off : off+int(b.size)]
	switch f.known {
	case knownTime:
		return appendSeconds(w.dst, int64(w.p.load(raw))), true
	case knownDev:
		v := w.p.load(raw)
		dst := strconv.AppendUint(w.dst, v>>20, 10)
		return strconv.AppendUint(append(dst, ':'), v&(1<<20-1), 10), true
	case knownMode:
		return appendMode(w.dst, w.p.load(raw)), true
	case knownGFP:
		return appendGFP(w.dst, w.p.load(raw)), true
	case knownNumber:
		inner, _ := w.p.onlyNumber(b)
		v := w.p.number(f, inner, w.raw, off)
		if inner.signed {
			return strconv.AppendInt(w.dst, int64(v), 10), true
		}
		return strconv.AppendUint(w.dst, v, 10), true
	case knownIP4:
		return netip.AddrFrom4([4]byte(raw)).AppendTo(w.dst), true
	case knownIP6:
		return netip.AddrFrom16([16]byte(raw)).AppendTo(w.dst), true
	case knownSocket:
		return w.p.appendSocketAddr(w.dst, raw)
	case knownList:
		return w.list(raw, off), true
	case knownName:
		return w.qstr(raw)
	case knownBig:
		var v uint64
		for _, c := range raw {
			v = v<<8 | uint64(c)
		}
		return strconv.AppendUint(w.dst, v, 10), true
	case knownMAC:
		return AppendMAC(w.dst, raw), true
	case knownErrno:
		name := errno.Name(-w.p.number(f, b, w.raw, off))
		if name == "" {
			return w.dst, false
		}
		return append(append(w.dst, '-'), name...), true
	}
	return w.dst, false
}

// AppendMAC appends a hardware address as people read it, `02:00:00:00:00:01`.
func AppendMAC(dst, raw []byte) []byte {
	for i, c := range raw {
		if i > 0 {
			dst = append(dst, ':')
		}
		dst = append(dst, hexDigits[c>>4], hexDigits[c&15])
	}
	return dst
}

// appendSeconds appends nanoseconds as seconds, in the format of the kernel's log.
func appendSeconds(dst []byte, ns int64) []byte {
	if ns == math.MaxInt64 {
		return append(dst, "KTIME_MAX"...)
	}
	v := uint64(ns)
	if ns < 0 {
		dst = append(dst, '-')
		v = -v
	}
	const second = 1_000_000_000
	dst = strconv.AppendUint(dst, v/second, 10)
	dst = append(dst, '.')
	for unit := uint64(second / 10); unit > 0; unit /= 10 {
		dst = append(dst, '0'+byte(v/unit%10))
	}
	return append(dst, 's')
}

// appendMode appends the file type by name and the permissions in octal.
func appendMode(dst []byte, mode uint64) []byte {
	name := ""
	switch mode & 0o170000 {
	case 0o010000:
		name = "S_IFIFO|"
	case 0o020000:
		name = "S_IFCHR|"
	case 0o040000:
		name = "S_IFDIR|"
	case 0o060000:
		name = "S_IFBLK|"
	case 0o100000:
		name = "S_IFREG|"
	case 0o120000:
		name = "S_IFLNK|"
	case 0o140000:
		name = "S_IFSOCK|"
	}
	if name != "" {
		mode &^= 0o170000
	}
	dst = append(dst, name...)
	dst = append(dst, '0')
	start := len(dst)
	dst = strconv.AppendUint(dst, mode, 8)
	for len(dst)-start < 3 {
		dst = append(dst, 0)
		copy(dst[start+1:], dst[start:])
		dst[start] = '0'
	}
	return dst
}

// gfpNames are the bits that have had the same meaning since Linux 5.15. Bits from 24 up
// depend on the configuration; bit 9 used to be __GFP_ATOMIC.
var gfpNames = [...]string{
	0: "DMA", 1: "HIGHMEM", 2: "DMA32", 3: "MOVABLE", 4: "RECLAIMABLE", 5: "HIGH", 6: "IO", 7: "FS", 8: "ZERO",
	10: "DIRECT_RECLAIM", 11: "KSWAPD_RECLAIM", 12: "WRITE", 13: "NOWARN", 14: "RETRY_MAYFAIL", 15: "NOFAIL",
	16: "NORETRY", 17: "MEMALLOC", 18: "COMP", 19: "NOMEMALLOC", 20: "HARDWALL", 21: "THISNODE", 22: "ACCOUNT",
	23: "ZEROTAGS",
}

// appendGFP appends the name of a common combination, and then the bits beyond it.
func appendGFP(dst []byte, v uint64) []byte {
	start := len(dst)
	for _, c := range [...]struct {
		mask uint64
		name string
	}{
		{0x100cca, "GFP_HIGHUSER_MOVABLE"},
		{0x100cc2, "GFP_HIGHUSER"},
		{0x100cc0, "GFP_USER"},
		{0x400cc0, "GFP_KERNEL_ACCOUNT"},
		{0xcc0, "GFP_KERNEL"},
		{0xc40, "GFP_NOFS"},
		{0x820, "GFP_ATOMIC"},
		{0xc00, "GFP_NOIO"},
		{0x800, "GFP_NOWAIT"},
	} {
		if v&c.mask == c.mask {
			dst = append(dst, c.name...)
			v &^= c.mask
			break
		}
	}
	for bit, name := range gfpNames {
		if name != "" && v&(1<<bit) != 0 {
			if len(dst) > start {
				dst = append(dst, '|')
			}
			dst = append(append(dst, "__GFP_"...), name...)
			v &^= 1 << bit
		}
	}
	if v != 0 || len(dst) == start {
		if len(dst) > start {
			dst = append(dst, '|')
		}
		dst = strconv.AppendUint(append(dst, "0x"...), v, 16)
	}
	return dst
}

// sockaddrUn is the size of a struct sockaddr_un, which the longest path fills without a NUL.
const sockaddrUn = 110

// appendSocketAddr appends an address, for the families whose format is known.
func (p *Printer) appendSocketAddr(dst, raw []byte) ([]byte, bool) {
	const unix, inet, inet6 = 1, 2, 10
	port := uint16(raw[2])<<8 | uint16(raw[3])
	switch family := p.load(raw[:2]); {
	case family == inet:
		dst = append(dst, "AF_INET "...)
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(raw[4:8])), port).AppendTo(dst), true
	case family == inet6 && len(raw) >= 28:
		dst = append(dst, "AF_INET6 "...)
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(raw[8:24])), port).AppendTo(dst), true
	case family == unix:
		path := raw[2:]
		dst = append(dst, `AF_UNIX "`...)
		if path[0] == 0 {
			// An abstract name. The address does not contain its length.
			dst = append(dst, '@')
			path = path[1:]
		}
		end := bytes.IndexByte(path, 0)
		if end >= 0 {
			path = path[:end]
		}
		dst = append(terminal.AppendLiteral(dst, path), '"')
		if end < 0 && len(raw) < sockaddrUn {
			dst = append(dst, "..."...) // the rest is beyond the struct, as of a struct sockaddr
		}
		return dst, true
	}
	return dst, false
}

// list writes a list_head. It is empty if it points to itself.
func (w *walker) list(raw []byte, off int) []byte {
	next, prev := w.p.load(raw[:8]), w.p.load(raw[8:])
	switch {
	case next == 0 && prev == 0:
		return append(w.dst, "unused"...)
	case next == prev && w.addr != 0 && next == w.addr+uint64(off):
		return append(w.dst, "empty"...)
	}
	dst := strconv.AppendUint(append(w.dst, "next 0x"...), next, 16)
	return strconv.AppendUint(append(dst, " prev 0x"...), prev, 16)
}

// qstr writes the name in a struct qstr if it was captured.
func (w *walker) qstr(raw []byte) ([]byte, bool) {
	if w.o.Memory == nil {
		return w.dst, false
	}
	length := raw[4:8]
	if !w.p.little {
		length = raw[:4]
	}
	n := int(w.p.load(length))
	name := w.o.Memory(w.p.load(raw[8:]), min(n, 4*maxText))
	if len(name) == 0 {
		return w.dst, false
	}
	return terminal.AppendQuoted(w.dst, name[:min(n, len(name))], len(name) < n), true
}
