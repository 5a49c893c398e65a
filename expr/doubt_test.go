// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"strings"
	"testing"
)

// doubts checks one SPEC for send and returns what is doubted of it.
func doubts(t *testing.T, text string) string {
	t.Helper()
	spec, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	scope := testScope(typeLong)
	var found []string
	scope.Doubt = func(e *Error) { found = append(found, text[e.Span.Start:e.Span.End]+": "+e.Error()) }
	if _, err := Check(spec, scope); err != nil {
		t.Fatalf("%s:\n%v", text, err)
	}
	return strings.Join(found, "\n")
}

// What compilers warn about (gcc -Wparentheses, -Wtype-limits), and positive
// error numbers. In send(sk, count, flags, …) flags is an int, count a size_t.
func TestDoubts(t *testing.T) {
	for _, tt := range []struct{ items, want string }{
		{"flags & 4 == 4", "flags & 4 == 4: == binds before &, so this is flags & (4 == 4), a value to show, which decides about no call; write (flags & 4) == 4"},
		{"flags & 4 != 0 && count", "flags & 4 != 0: != binds before &, so this is flags & (4 != 0); write (flags & 4) != 0"},
		{"1 < flags | 2", "1 < flags | 2: < binds before |, so this is (1 < flags) | 2, a value to show, which decides about no call; write 1 < (flags | 2)"},
		{"(flags & 4) == 4", ""},
		{"flags & (4 == 4)", ""},
		{"flags & 4", ""},
		{"hist(3)", "3: this is 3 in every call; to count calls write count()"},
		{"count()[-EINVAL]", "-EINVAL: this key is the same in every call"},
		{"sum(flags)[flags == 3, $func]", ""},
		{"count < 0", "count < 0: this never holds: count is size_t, which has no negative values; to read it as a signed number write (long)count"},
		{"0 > count", "0 > count: this never holds: count is size_t, which has no negative values; to read it as a signed number write (long)count"},
		{"count >= 0", "count >= 0: this always holds: count is size_t, which has no negative values; to read it as a signed number write (long)count"},
		{"count > -1", "count > -1: this never holds: count is size_t, which has no negative values; to read it as a signed number write (long)count"},
		{"sk->addr < 0", "sk->addr < 0: this never holds: sk->addr is u32, which has no negative values; to read it as a signed number write (int)sk->addr"},
		{"sk->hi < 0", "sk->hi < 0: this never holds: sk->hi is u16, which has no negative values"},
		{"sk < 0", "sk < 0: this never holds: sk is struct sock *, which has no negative values; an error is a pointer >= -4095"},
		{"sk->hi > -1", "sk->hi > -1: this always holds: sk->hi is u16, whose values are 0 to 65535"}, // as an int after promotion
		{"cpu == -1", "cpu == -1: this never holds: cpu is u8, whose values are 0 to 255"},
		{"256 != cpu", "256 != cpu: this always holds: cpu is u8, whose values are 0 to 255"},
		{"cpu < 256", "cpu < 256: this always holds: cpu is u8, whose values are 0 to 255"},
		{"cpu >= 255ul", ""},
		{"255 < cpu", "255 < cpu: this never holds: cpu is u8, whose values are 0 to 255"},
		{"cpu > 254", ""},
		{"sk->hi == -1ul", "sk->hi == -1ul: this never holds: sk->hi is u16, whose values are 0 to 65535"},
		{"flags == 2147483648", "flags == 2147483648: this never holds: flags is int, whose values are -2147483648 to 2147483647"},
		{"flags >= -2147483648", "flags >= -2147483648: this always holds: flags is int, whose values are -2147483648 to 2147483647"},
		{"flags > -2147483648", ""},
		{"flags == 0xffffffff", ""}, // -1 as an unsigned int
		{"flags == 0xffffffffffffffff", ""},
		{"(s8)flags == 128", "(s8)flags == 128: this never holds: (s8)flags is s8, whose values are -128 to 127"},
		{"(bool)flags == 2", "(bool)flags == 2: this never holds: (bool)flags is _Bool, whose values are 0 to 1"},
		{"t.bit == 32", "t.bit == 32: this never holds: t.bit is u32 : 5, whose values are 0 to 31"},
		{"t.bit == 31", ""},
		{"sk->dev->name == 0", "sk->dev->name: this compares where the array sk->dev->name lies, not what is in it; write sk->dev->name[0], or sk->dev->name == \"text\""},
		{"0 != sk->dev->ids", "sk->dev->ids: this compares where the array sk->dev->ids lies, not what is in it; write sk->dev->ids[0]"},
		{"sk >= -4095", ""},
		{"count > -4096", ""}, // IS_ERR_VALUE
		{"count == -1", ""},
		{"flags < 0", ""},
		{"return < 0", ""},
		{"count > 0", ""},
		{"count <= 0", ""},
		{"return == EINVAL", "EINVAL: functions return errors as negative numbers, and EINVAL is a positive one; write -EINVAL"},
		{"ENOMEM == (int)return", "ENOMEM: functions return errors as negative numbers, and ENOMEM is a positive one; write -ENOMEM"},
		{"return == -EINVAL", ""},
		{"return == 22", ""},
		{"flags == EINVAL", ""}, // sk->sk_err has positive ones
		{`$comm ~ "nginx[0-9]"`, `"nginx[0-9]": this matches names with [ in them; a glob matches whole names, and only * and ? stand for other characters`},
		{`$comm ~ ".*conf$"`, `".*conf$": this matches names with .* in them; a glob matches whole names, and only * and ? stand for other characters`},
		{`$comm ~ "^conf"`, `"^conf": this matches names with ^ in them; a glob matches whole names, and only * and ? stand for other characters`},
		{`$comm ~ "a$b.c*"`, ""},
		{"count > 3 & flags < 0", "count > 3 & flags < 0: & takes bits of two comparisons together; write &&"},
		{`$comm == "nginx[0-9]"`, ""},
		{`$comm == "nginx*"`, `"nginx*": this compares with the text "nginx*" itself; to match a glob write $comm ~ "nginx*"`},
		{`"eth?" != sk->dev->name`, `"eth?": this compares with the text "eth?" itself; to match a glob write !(sk->dev->name ~ "eth?")`},
		{`$comm ~ "nginx*"`, ""},
		{`$comm == "*" || $comm != "?"`, ""},
		{"count == 4096 || 8192", "8192: 8192 is always true; write count == 4096 || count == 8192"},
		{"(1) && count > flags", "(1): (1) is always true"},
		{"count & 1 && 3", "3: 3 is always true"},
		{"count == 1 || 2 || 3", "2: 2 is always true; write count == 1 || count == 2\n3: 3 is always true"},
		{"count != 4096 || 8192", "8192: 8192 is always true"},
		{"count != 4096 && 8192", "8192: 8192 is always true; write count != 4096 && count != 8192"},
		{"count == 4096 && 8192", "8192: 8192 is always true"},
		{"count || 0", ""},
		{"count == 1 || flags & 2", ""},
		{"$duration > 10", "10: 10 is 10 nanoseconds; write the unit: 10ms, or 10ns"},
		{"999 <= $duration", "999: 999 is 999 nanoseconds; write the unit: 999ms, or 999ns"},
		{"$duration > 10ns && $duration > 0 && $duration != 1000", ""},
		{`$comm == "0123456789abcdef"`, `$comm == "0123456789abcdef": this never holds: $comm has at most 15 bytes; write "0123456789abcde"`},
		{`$comm != "0123456789abcdef"`, `$comm != "0123456789abcdef": this always holds: $comm has at most 15 bytes; write "0123456789abcde"`},
		{`$comm ~ "0123456789*abcdef"`, `$comm ~ "0123456789*abcdef": this never holds: $comm has at most 15 bytes`},
		{`$comm == "0123456789abcde"`, ""},
		{`$comm ~ "*0123456789abcde*"`, ""},
		{`sk->dev->name == "0123456789abcdef"`, ""}, // an array may be full
		{`"0123456789abcdefg" == sk->dev->name`, `"0123456789abcdefg" == sk->dev->name: this never holds: sk->dev->name has at most 16 bytes`},
		{`str(sk->dev->name) == "0123456789abcdefg"`, `str(sk->dev->name) == "0123456789abcdefg": this never holds: str(sk->dev->name) has at most 16 bytes`},
		{"count < 0, count < 0", "count < 0: this never holds: count is size_t, which has no negative values; to read it as a signed number write (long)count\n" +
			"count < 0: this never holds: count is size_t, which has no negative values; to read it as a signed number write (long)count"},
	} {
		if got := doubts(t, "send("+tt.items+")"); got != tt.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.items, got, tt.want)
		}
	}
}

// Of a SPEC that has faults, only these are told, and without anybody to tell
// nothing is.
func TestDoubtsBesideFaults(t *testing.T) {
	spec, err := Parse("send(count < 0, cuont)")
	if err != nil {
		t.Fatal(err)
	}
	scope := testScope(typeLong)
	scope.Doubt = func(e *Error) { t.Errorf("doubt: %v", e) }
	if _, err := Check(spec, scope); err == nil {
		t.Error("no fault")
	}
	if spec, err = Parse("send(count < 0)"); err != nil {
		t.Fatal(err)
	}
	if _, err := Check(spec, testScope(typeLong)); err != nil {
		t.Error(err)
	}
}
