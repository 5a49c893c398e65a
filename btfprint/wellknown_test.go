// SPDX-License-Identifier: Apache-2.0

package btfprint

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/errno"
)

func socketType() *btf.Struct {
	return &btf.Struct{Name: "sockaddr_storage", Size: 128, Members: []btf.Member{
		{Name: "ss_family", Type: &btf.Int{Name: "short unsigned int", Size: 2}},
		{Name: "data", Type: arrayOf(u8Type(), 126), Offset: 16},
	}}
}

func number(t btf.Type) *btf.Struct {
	return &btf.Struct{Size: 4, Members: []btf.Member{{Name: "counter", Type: t}}}
}

func TestReadings(t *testing.T) {
	typedef := func(name string, t btf.Type) btf.Type { return &btf.Typedef{Name: name, Type: t} }
	s64 := &btf.Int{Name: "long long int", Size: 8, Encoding: btf.Signed}
	u16 := &btf.Int{Name: "short unsigned int", Size: 2}
	le := binary.LittleEndian
	time := func(ns int64) string { return string(le.AppendUint64(nil, uint64(ns))) }
	u32 := func(v uint32) string { return string(le.AppendUint32(nil, v)) }
	pair := func(a, b uint64) string { return string(le.AppendUint64(le.AppendUint64(nil, a), b)) }
	pointer := &btf.Pointer{Target: (*btf.Void)(nil)}
	list := &btf.Struct{Name: "list_head", Size: 16, Members: []btf.Member{{Name: "next", Type: pointer}, {Name: "prev", Type: pointer, Offset: 64}}}
	qstr := &btf.Struct{Name: "qstr", Size: 16, Members: []btf.Member{
		{Name: "hash", Type: uintType()}, {Name: "len", Type: uintType(), Offset: 32}, {Name: "name", Type: pointer, Offset: 64},
	}}
	atomic := typedef("atomic_t", number(intType()))
	errs := &btf.Struct{Name: "s", Size: 8, Members: []btf.Member{{Name: "sk_err", Type: intType()}, {Name: "cpu", Type: intType(), Offset: 32}}}
	counts := &btf.Struct{Name: "s", Size: 24, Members: []btf.Member{{Name: "it_overrun", Type: s64}, {Name: "interrupt", Type: intType(), Offset: bytesAt(8)},
		{Name: "f_wb_err", Type: intType(), Offset: bytesAt(12)}, {Name: "lasterror", Type: intType(), Offset: bytesAt(16)}, {Name: "preferred", Type: intType(), Offset: bytesAt(20)}}}
	small := &btf.Struct{Name: "sockaddr", Size: 16, Members: []btf.Member{{Name: "sa_family", Type: u16}, {Name: "sa_data", Type: arrayOf(u8Type(), 14), Offset: 16}}}
	full := "\x01\x00" + strings.Repeat("p", 108)
	in6 := &btf.Struct{Name: "in6_addr", Size: 16, Members: []btf.Member{{Name: "b", Type: arrayOf(u8Type(), 16)}}}
	in4 := &btf.Struct{Name: "in_addr", Size: 4, Members: []btf.Member{{Name: "s_addr", Type: uintType()}}}
	be := func(n uint32) btf.Type {
		return typedef(map[uint32]string{2: "__be16", 4: "__be32", 8: "__be64"}[n], &btf.Int{Name: "u", Size: n})
	}
	packet := &btf.Struct{Name: "p", Size: 24, Members: []btf.Member{
		{Name: "len", Type: be(2)},
		{Name: "h_dest", Type: arrayOf(u8Type(), 6), Offset: bytesAt(2)},
		{Name: "saddr", Type: be(4), Offset: bytesAt(8)},
		{Name: "seq", Type: be(4), Offset: bytesAt(12)},
		{Name: "cookie", Type: be(8), Offset: bytesAt(16)},
	}}
	const addr = 0xffff888000000100
	for _, tt := range []struct {
		typ  btf.Type
		raw  string
		want string
	}{
		{typedef("ktime_t", s64), time(1_500_000_007), "(ktime_t)1.500000007s"},
		{typedef("ktime_t", s64), time(-1), "(ktime_t)-0.000000001s"},
		{typedef("ktime_t", s64), time(math.MaxInt64), "(ktime_t)KTIME_MAX"},
		{typedef("ktime_t", s64), time(math.MinInt64), "(ktime_t)-9223372036.854775808s"},
		{typedef("ktime_t", intType()), u32(5), "(ktime_t)5"}, // not the kernel's
		{typedef("dev_t", uintType()), u32(8<<20 | 17), "(dev_t)8:17"},
		{typedef("umode_t", u16), "\xa4\x81", "(umode_t)S_IFREG|0644"},
		{typedef("umode_t", u16), "\xed\x49", "(umode_t)S_IFDIR|04755"},
		{typedef("umode_t", u16), "\x04\x00", "(umode_t)0004"},
		{typedef("umode_t", u16), "\x00\x00", "(umode_t)0000"},
		{typedef("gfp_t", uintType()), u32(0xcc0), "(gfp_t)GFP_KERNEL"},
		{typedef("gfp_t", uintType()), u32(0xdc0), "(gfp_t)GFP_KERNEL|__GFP_ZERO"},
		{typedef("gfp_t", uintType()), u32(0x2820), "(gfp_t)GFP_ATOMIC|__GFP_NOWARN"},
		{typedef("gfp_t", uintType()), u32(0x4000000 | 0x800), "(gfp_t)GFP_NOWAIT|0x4000000"},
		{typedef("gfp_t", uintType()), u32(0), "(gfp_t)0x0"},
		{typedef("refcount_t", &btf.Struct{Name: "refcount_struct", Size: 4, Members: []btf.Member{{Name: "refs", Type: atomic}}}), u32(3), "(refcount_t)3"},
		{atomic, u32(math.MaxUint32), "(atomic_t)-1"},
		{typedef("kuid_t", number(uintType())), u32(1000), "(kuid_t)1000"},
		{arrayOf(typedef("kuid_t", number(uintType())), 2), u32(1) + u32(2), "(kuid_t[2])[1,2,]"},
		{in4, "\x7f\x00\x00\x01", "(struct in_addr)127.0.0.1"},
		{in6, strings.Repeat("\x00", 15) + "\x01", "(struct in6_addr)::1"},
		{socketType(), "\x02\x00\x00\x50\x0a\x00\x00\x01", "(struct sockaddr_storage)AF_INET 10.0.0.1:80"},
		{socketType(), "\x0a\x00\x01\xbb\x00\x00\x00\x00\xfe\x80" + strings.Repeat("\x00", 13) + "\x02", "(struct sockaddr_storage)AF_INET6 [fe80::2]:443"},
		{socketType(), "\x01\x00/run/x\n", `(struct sockaddr_storage)AF_UNIX "/run/x\n"`},
		{socketType(), "\x01\x00\x00abs", `(struct sockaddr_storage)AF_UNIX "@abs"`},
		{small, "\x01\x00/run/systemd/j", `(struct sockaddr)AF_UNIX "/run/systemd/j"...`},
		{small, "\x01\x00/run/systemd", `(struct sockaddr)AF_UNIX "/run/systemd"`},
		{small, "\x01\x00\x00run/systemd/j", `(struct sockaddr)AF_UNIX "@run/systemd/j"...`},
		{&btf.Struct{Name: "sockaddr_un", Size: 110, Members: []btf.Member{{Name: "sun_family", Type: u16}, {Name: "sun_path", Type: arrayOf(u8Type(), 108), Offset: 16}}}, full,
			`(struct sockaddr_un)AF_UNIX "` + full[2:] + `"`},
		{list, pair(addr, addr), "(struct list_head)empty"},
		{list, pair(0, 0), "(struct list_head)unused"},
		{list, pair(0x10, 0x20), "(struct list_head)next 0x10 prev 0x20"},
		{qstr, pair(4<<32, addr), `(struct qstr)"eth0"`},
		{qstr, pair(4<<32, 5), "(struct qstr){.len = (unsigned int)4,.name = (void *)0x5,}"},
		{errs, u32(^uint32(0)) + u32(^uint32(0)), "(struct s){.sk_err = (int)-EPERM,.cpu = (int)-1,}"},
		{counts, strings.Repeat("\xff", 24), "(struct s){.it_overrun = (long long int)-1,.interrupt = (int)-1,.f_wb_err = (int)-EPERM,.lasterror = (int)-EPERM,.preferred = (int)-1,}"},
		{errs, u32(1) + u32(0), "(struct s){.sk_err = (int)1,}"},
		{packet, "\x00\x54\x02\x00\x00\x00\x00\xfe\x0a\x01\x02\x03\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x07",
			"(struct p){.len = (__be16)84,.h_dest = (u8[6])02:00:00:00:00:fe,.saddr = (__be32)10.1.2.3,.seq = (__be32)256,.cookie = (__be64)7,}"},
		{pointer, time(-517), "(void *)-EPROBE_DEFER"},
		{pointer, time(-4095), "(void *)0xfffffffffffff001"},
	} {
		p := mustCompile(t, tt.typ)
		raw := make([]byte, p.Size())
		copy(raw, tt.raw)
		o := ValueOptions{Readings: true, Mode: Compact, Addr: addr, Memory: func(at uint64, size int) []byte {
			if at != addr || size != 4 {
				return nil
			}
			return []byte("eth0")
		}}
		if got := string(p.AppendValue(nil, raw, &o)); got != tt.want {
			t.Errorf(" got %s\nwant %s", got, tt.want)
		}
		if _, err := decodeJSON(p.AppendJSON(nil, raw, &o)); err != nil {
			t.Errorf("%s: %v", tt.want, err)
		}
	}
}

func TestReadingsJSON(t *testing.T) {
	typ := &btf.Struct{Name: "s", Size: 12, Members: []btf.Member{
		{Name: "t", Type: &btf.Typedef{Name: "ktime_t", Type: &btf.Int{Name: "long long int", Size: 8, Encoding: btf.Signed}}},
		{Name: "n", Type: &btf.Typedef{Name: "atomic_t", Type: number(intType())}, Offset: 64},
	}}
	got := string(mustCompile(t, typ).AppendJSON(nil, []byte{1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0}, &ValueOptions{Readings: true}))
	if want := `{"t":"0.000000001s","n":2}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestGFPNames compares with the kernel's own numbers, from Linux 6.10 on.
func TestGFPNames(t *testing.T) {
	compared := false
	for _, file := range kernelBTF(t) {
		spec, err := btf.LoadSpec(file)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for typ, err := range spec.All() {
			if err != nil {
				t.Fatal(err)
			}
			e, ok := typ.(*btf.Enum)
			if !ok || e.Name != "" || len(e.Values) == 0 || e.Values[0].Name != "___GFP_DMA_BIT" {
				continue
			}
			for _, v := range e.Values {
				name := strings.TrimSuffix(strings.TrimPrefix(v.Name, "___GFP_"), "_BIT")
				if v.Value < uint64(len(gfpNames)) && name != "UNUSED" {
					found++
					if gfpNames[v.Value] != name {
						t.Errorf("bit %d is %s for the kernel, %q here", v.Value, name, gfpNames[v.Value])
					}
				}
			}
		}
		if found > 0 {
			compared = true
		}
		if found > 0 && found < 20 {
			t.Errorf("%s: only %d bits compared", file, found)
		}
	}
	if !compared {
		t.Skip("none of these kernels has an enum of the bits: Linux 6.10 is the first that has")
	}
}

// TestErrnoNames compares with the C compiler's headers.
func TestErrnoNames(t *testing.T) {
	out, err := exec.Command("gcc", "-E", "-dM", "-include", "errno.h", "-x", "c", "/dev/null").Output()
	if err != nil {
		t.Skipf("no C headers: %v", err)
	}
	n := 0
	for _, m := range regexp.MustCompile(`(?m)^#define (E\w+) (\d+)$`).FindAllStringSubmatch(string(out), -1) {
		v, err := strconv.ParseUint(m[2], 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		if n++; errno.Name(v) != m[1] {
			t.Errorf("%d is %s, not %q", v, m[1], errno.Name(v))
		}
	}
	if n < 100 {
		t.Errorf("only %d numbers found", n)
	}
	for v, want := range map[uint64]string{0: "", 41: "", 512: "ERESTARTSYS", 517: "EPROBE_DEFER", 524: "ENOTSUPP", 4095: "", 1 << 40: ""} {
		if got := errno.Name(v); got != want {
			t.Errorf("errno.Name(%d) = %q, want %q", v, got, want)
		}
	}
}

func TestAppendDiff(t *testing.T) {
	typ := outerType()
	p := mustCompile(t, typ)
	before, after := outerBytes(), outerBytes()
	after[0] = 1                         // color
	after[4] = 6 | 0x1e<<3               // bits, but not sbits in the same byte
	copy(after[16:], "lo\x00")           // in.name
	after[43] = 7                        // mac[3]
	after[48] = 0x40                     // num and ptr
	after[60] = 9                        // grid[0][0]
	after[76+12] = 43                    // ins[1].a
	copy(after[76+4:], "\x00behind")     // ins[0].name, behind its first NUL
	copy(before[32:40], make([]byte, 8)) // fn
	const want = `.color: BLUE → GREEN
.bits: 0x5 → 0x6
.in.name: "et\"h\n" → "lo\x00h\n"
.fn: NULL → 0xffffffff81000010
.mac[3]: 255 → 7
.num: 18446612682070040576 → 18446612682070040640
.ptr: 0xffff888000002000 → 0xffff888000002040
.grid[0][0]: 0 → 9
.ins[0].name: "" → "\x00behind"
.ins[1].a: 42 → 43
`
	got := string(p.AppendDiff([]byte("x"), before, after, nil))
	if got != "x"+want {
		t.Errorf("got %s", got)
	}
	if got := string(p.AppendDiff(nil, after, after, nil)); got != "" {
		t.Errorf("nothing changed, but %s", got)
	}
	likely := string(p.AppendDiff(nil, before, after, &ValueOptions{Likely: true}))
	if strings.Contains(likely, ".num") || !strings.Contains(likely, ".ptr") {
		t.Errorf("with Likely: %s", likely)
	}
	if got := string(p.AppendDiff(nil, before, after[:8], nil)); got != ".color: BLUE → GREEN\n.bits: 0x5 → 0x6\n...\n" {
		t.Errorf("8 bytes: %s", got)
	}
	address, other := addressBytes(), addressBytes()
	other[3] = 81
	a := mustCompile(t, sockaddrType())
	if got := string(a.AppendDiff(nil, address, other, nil)); got != `.sa_data: "\x00P\x7f\x00\x00\x01" → "\x00Q\x7f\x00\x00\x01"`+"\n" {
		t.Errorf("behind a NUL: %s", got)
	}
	if got := string(a.AppendDiff(nil, address, other, &ValueOptions{Plain: true})); got != ".sa_data[1]: 80 → 81\n" {
		t.Errorf("behind a NUL, plain: %s", got)
	}
	holed := mustCompile(t, &btf.Struct{Name: "s", Size: 8, Members: []btf.Member{{Name: "c", Type: charType()}, {Name: "i", Type: intType(), Offset: 32}}})
	if got := string(holed.AppendDiff(nil, make([]byte, 8), []byte{0, 0, 1, 0, 0, 0, 0, 0}, nil)); got != "/* only bytes of no member differ */\n" {
		t.Errorf("padding: %s", got)
	}
	s := mustCompile(t, socketType())
	path, stale := []byte("\x01\x00/x"+strings.Repeat("\x00", 124)), []byte("\x01\x00/x\x00y"+strings.Repeat("\x00", 122))
	if got := string(s.AppendDiff(nil, path, stale, &ValueOptions{Readings: true})); got != ".data[3]: 0 → 121\n" {
		t.Errorf("two that read the same: %s", got)
	}
	i := mustCompile(t, intType())
	if got := string(i.AppendDiff(nil, []byte{0, 0, 0, 0}, []byte{0, 3, 0, 0}, nil)); got != "0 → 768\n" {
		t.Errorf("int: %q", got)
	}
	k := mustCompile(t, &btf.Struct{Name: "s", Size: 4, Members: []btf.Member{{Name: "users", Type: &btf.Typedef{Name: "atomic_t", Type: number(intType())}}}})
	if got := string(k.AppendDiff(nil, []byte{1, 0, 0, 0}, []byte{2, 0, 0, 0}, &ValueOptions{Readings: true})); got != ".users: 1 → 2\n" {
		t.Errorf("reading: %q", got)
	}
	if got := string(k.AppendDiff(nil, []byte{1, 0, 0, 0}, []byte{2, 0, 0, 0}, nil)); got != ".users.counter: 1 → 2\n" {
		t.Errorf("members: %q", got)
	}
}

// TestDiffNotEmpty: where bytes differ, there is a line, whatever the options.
func TestDiffNotEmpty(t *testing.T) {
	r := &layoutMaker{Rand: rand.New(rand.NewPCG(3, 5))}
	types := []btf.Type{outerType(), sockaddrType(), socketType(), arrayOf(charType(), 9), arrayOf(u8Type(), 9),
		flexibleType(charType()), flexibleType(u8Type()), flexibleType(intType())}
	for range 500 {
		types = append(types, r.composite(3))
	}
	for _, typ := range types {
		p := mustCompile(t, typ)
		size := p.Size()
		if r.IntN(2) == 0 {
			size += 8 // a flexible array, if there is one
		}
		if size == 0 {
			continue
		}
		before := testBytes(btf.TypeID(size), size, true)
		for at := range size {
			after := bytes.Clone(before)
			after[at] ^= 1 << r.IntN(8)
			for _, o := range []ValueOptions{{}, {Plain: true}, {Likely: true}, {Readings: true}, {Likely: true, Readings: true}} {
				if got := p.AppendDiff(nil, before, after, &o); len(got) == 0 {
					t.Fatalf("%+v, byte %d of %x: no line\n%s", o, at, before, AppendType(nil, typ, TypeOptions{}))
				}
				if got := p.AppendDiff(nil, after, after, &o); len(got) != 0 {
					t.Fatalf("nothing changed, but %s", got)
				}
			}
		}
	}
}
