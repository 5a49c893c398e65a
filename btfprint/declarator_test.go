// SPDX-License-Identifier: Apache-2.0

package btfprint

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
	"github.com/google/go-cmp/cmp"
)

func ptr(t btf.Type) *btf.Pointer { return &btf.Pointer{Target: t} }

func constant(t btf.Type) *btf.Const { return &btf.Const{Type: t} }

func proto(ret btf.Type, params ...btf.FuncParam) *btf.FuncProto {
	return &btf.FuncProto{Return: ret, Params: params}
}

func TestAppendFunc(t *testing.T) {
	void := (*btf.Void)(nil)
	skb, net := &btf.Struct{Name: "sk_buff"}, &btf.Struct{Name: "net"}
	handler := &btf.Typedef{Name: "irq_handler_t", Type: ptr(proto(intType()))}
	for _, tt := range []struct {
		name  string
		proto *btf.FuncProto
		want  string
	}{
		{"ip_send_skb", proto(intType(), btf.FuncParam{Name: "net", Type: ptr(net)}, btf.FuncParam{Name: "skb", Type: ptr(skb)}),
			"int ip_send_skb(struct net * net, struct sk_buff * skb);"},
		{"_printk", proto(intType(), btf.FuncParam{Name: "fmt", Type: ptr(constant(charType()))}, btf.FuncParam{Type: void}),
			"int _printk(const char * fmt, ...);"},
		{"nothing", proto(void), "void nothing(void);"},
		{"old", proto(void, btf.FuncParam{Type: void}), "void old(void);"},
		{"on", proto(void, btf.FuncParam{Name: "fn", Type: ptr(proto(void, btf.FuncParam{Type: ptr(skb)}))}, btf.FuncParam{Name: "h", Type: handler}),
			"void on(void (*fn)(struct sk_buff *), irq_handler_t h);"},
		{"find", proto(ptr(ptr(skb)), btf.FuncParam{Name: "key", Type: constant(ptr(constant(void)))}, btf.FuncParam{Name: "r", Type: &btf.Restrict{Type: ptr(charType())}}),
			"struct sk_buff ** find(const void * const key, char * restrict r);"},
		{"seven", proto(uintType(), btf.FuncParam{Name: "a", Type: intType()}, btf.FuncParam{Type: intType()}, btf.FuncParam{Name: "c", Type: intType()},
			btf.FuncParam{Name: "d", Type: intType()}, btf.FuncParam{Name: "e", Type: intType()}, btf.FuncParam{Name: "f", Type: intType()}, btf.FuncParam{Name: "g", Type: &btf.Fwd{Name: "x", Kind: btf.FwdUnion}}),
			"unsigned int seven(int a, int, int c, int d, int e, int f, union x g);"},
		{"handler", proto(ptr(proto(intType(), btf.FuncParam{Type: intType()})), btf.FuncParam{Name: "n", Type: intType()}),
			"int (*handler(int n))(int);"},
	} {
		if got := string(AppendFunc([]byte("x"), tt.name, tt.proto)); got != "x"+tt.want {
			t.Errorf("got %s, want %s", got[1:], tt.want)
		}
	}
}

func TestAppendTypeName(t *testing.T) {
	skb := &btf.Struct{Name: "sk_buff"}
	for _, tt := range []struct {
		typ  btf.Type
		want string
	}{
		{constant(&btf.Volatile{Type: uintType()}), "unsigned int"},
		{ptr(constant(skb)), "struct sk_buff *"},
		{ptr(ptr(skb)), "struct sk_buff **"},
		{ptr((*btf.Void)(nil)), "void *"},
		{arrayOf(ptr(intType()), 2), "int *[2]"},
		{arrayOf(arrayOf(charType(), 8), 4), "char[4][8]"},
		{ptr(arrayOf(intType(), 3)), "int(*)[3]"},
		{ptr(proto((*btf.Void)(nil), btf.FuncParam{Type: ptr(skb)})), "void (*)(struct sk_buff *)"},
		{ptr(proto(ptr((*btf.Void)(nil)))), "void * (*)(void)"},
		{&btf.Struct{}, "struct"},
		{ptr(&btf.Union{}), "union *"},
		{&btf.Enum{}, "enum"},
		{&btf.Typedef{Name: "u8", Type: charType()}, "u8"},
		{&btf.TypeTag{Value: "user", Type: charType()}, "char"},
	} {
		if got := string(AppendTypeName(nil, tt.typ)); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

func TestAppendType(t *testing.T) {
	inner := &btf.Struct{Size: 16, Members: []btf.Member{
		{Name: "q", Type: charType()},
		{Name: "r", Type: ptr(constant(charType())), Offset: 64},
	}}
	outer := &btf.Struct{Name: "outer", Size: 40, Members: []btf.Member{
		{Name: "x", Type: uintType(), BitfieldSize: 4},
		{Name: "y", Type: charType(), Offset: 8},
		{Name: "fn", Type: ptr(proto(intType(), btf.FuncParam{Type: intType()}, btf.FuncParam{Type: (*btf.Void)(nil)})), Offset: 64},
		{Type: inner, Offset: 128},
		{Name: "last", Type: intType(), Offset: 256},
	}}
	// Columns, holes and totals as pahole 1.24 prints them.
	const want = `struct outer {
	unsigned int               x:4;                  /*     0: 0  4 */

	/* XXX 4 bits hole, try to pack */

	char                       y;                    /*     1     1 */

	/* XXX 6 bytes hole, try to pack */

	int                        (*fn)(int, ...);      /*     8     8 */
	struct {
		char               q;                    /*    16     1 */

		/* XXX 7 bytes hole, try to pack */

		const char *       r;                    /*    24     8 */
	};                                               /*    16    16 */
	int                        last;                 /*    32     4 */

	/* size: 40, cachelines: 1, members: 5 */
	/* sum members: 29, holes: 1, sum holes: 6 */
	/* sum bitfield members: 4 bits, bit holes: 1, sum bit holes: 4 bits */
	/* padding: 4 */
	/* last cacheline: 40 bytes */
};`
	if diff := cmp.Diff(want, string(AppendType(nil, outer, TypeOptions{}))); diff != "" {
		t.Error(diff)
	}
	for _, tt := range []struct {
		typ  btf.Type
		want string
	}{
		{inner, "struct {\n  char q;\n  const char * r;\n};"},
		{&btf.Typedef{Name: "color_t", Type: colorType()}, "typedef enum color color_t;"},
		{&btf.Typedef{Name: "pair_t", Type: &btf.Struct{Size: 4, Members: []btf.Member{{Name: "n", Type: intType()}}}}, "typedef struct {\n  int n;\n} pair_t;"},
		{&btf.Enum{Name: "e", Size: 8, Signed: true, Values: named("LOW", -1<<40, "HIGH", 1<<40)}, "enum e {\n  LOW = -1099511627776,\n  HIGH = 1099511627776,\n};"},
		{&btf.Func{Name: "f", Type: proto(intType())}, "int f(void);"},
		{&btf.Var{Name: "jiffies", Type: &btf.Volatile{Type: ulongType()}}, "volatile long unsigned int jiffies;"},
		{&btf.Fwd{Name: "hidden"}, "struct hidden;"},
		{ptr(arrayOf(intType(), 2)), "int (*)[2];"},
	} {
		if got := string(AppendType(nil, tt.typ, TypeOptions{Indent: "  ", NoLayout: true})); got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
	}
}

// TestEndlessTypes declares types that corrupt BTF makes endless.
func TestEndlessTypes(t *testing.T) {
	self := &btf.Pointer{}
	self.Target = self
	ring := &btf.Const{}
	ring.Type = ring
	fn := &btf.FuncProto{}
	fn.Return = ptr(fn)
	fn.Params = []btf.FuncParam{{Type: ptr(fn)}, {Type: ptr(fn)}}
	anon := &btf.Struct{Size: 8}
	anon.Members = []btf.Member{{Name: "a", Type: ptr(anon)}, {Name: "b", Type: ptr(anon)}}
	for _, typ := range []btf.Type{self, ring, fn, anon} {
		for _, text := range [][]byte{
			AppendTypeName(nil, typ),
			AppendDecl(nil, typ, "name"),
			AppendType(nil, typ, TypeOptions{}),
		} {
			if len(text) > 2*maxTypeLength {
				t.Errorf("%d bytes, beginning with %s", len(text), strings.ToValidUTF8(string(text[:100]), "?"))
			}
		}
	}
}
