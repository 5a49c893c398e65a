// SPDX-License-Identifier: Apache-2.0

package why

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestFind(t *testing.T) {
	for _, tt := range []struct {
		text, name string
		want       match
	}{
		{"cannot open /tmp/zz/bar: ", "/tmp/zz/bar", asWhole},
		{"cannot open /tmp/zz/bar", "/tmp/zz/bar", asWhole},
		{"cannot open /tmp/zz/bar: ", "/tmp/z", noMatch},
		{"cannot open /tmp/zz/bar: ", "/tmp/zz", asPart},
		{"cannot open /tmp/zz/bar: ", "/tmp/zz/", asPart},
		{"cannot open /tmp/zz/bar: ", "bar", asPart},
		{"cannot open /tmp/zz/bar: ", "ba", noMatch},
		{"cannot open /tmp/zz/bar: ", "ar", noMatch},
		{"cannot open /tmp/zz/bar: ", "/bar", noMatch},
		{"cannot open /tmp/zz/bar: ", "zz/bar", asPart},
		{"cannot open /tmp/zz/: ", "/tmp/zz/", asWhole},
		{"cannot open /tmp/zz and /tmp/z: ", "/tmp/z", asWhole},
		{"/tmp/z/a and /tmp/z", "/tmp/z", asWhole},
		{"cannot open '/tmp/z': ", "/tmp/z", asWhole},
		{"cannot open ‘/tmp/z’: ", "/tmp/z", asWhole},
		{"cannot open \"/tmp/z\"", "/tmp/z", asWhole},
		{"cannot open (/tmp/z)", "/tmp/z", asWhole},
		{"--file=/tmp/z, ", "/tmp/z", asWhole},
		{"cannot open /tmp/z.", "/tmp/z", asWhole},
		{"cannot open /tmp/z...\n", "/tmp/z", asWhole},
		{"cannot open /tmp/z - ", "/tmp/z", asWhole},
		{"cannot open /tmp/z.old: ", "/tmp/z", noMatch},
		{"cannot open /tmp/z-1: ", "/tmp/z", noMatch},
		{"cannot open /tmp/zä: ", "/tmp/z", noMatch},
		{"cannot open ./z: ", "z", noMatch},
		{"cannot open ./zz: ", "zz", asPart},
		{"cannot open .zz: ", "zz", noMatch},
		{"file:///tmp/zz", "/tmp/zz", asPart},
		{"is not a directory", "a", noMatch},
		{"cat: a: ", "a", asWhole},
		{"cat: 'a': ", "a", asWhole},
		{"ls: .: ", ".", asWhole},
		{"cannot open '/'", "/", asWhole},
		{"cannot open /tmp/zz", "/", noMatch},
		{"that's a b", "s", noMatch},
		{"", "a", noMatch},
	} {
		if got := find(tt.text, tt.name); got != tt.want {
			t.Errorf("%q in %q: %d, want %d", tt.name, tt.text, got, tt.want)
		}
	}
}

// TestNamed: of several calls with the error that a text names, it is about the one whose strings it has.
func TestNamed(t *testing.T) {
	open := func(file string) Failure { return call("openat", unix.ENOENT, file) }
	access := func(file string) Failure { return call("access", unix.ENOENT, file) }
	two := func(name, first, second string) Failure {
		f := call(name, unix.ENOENT, first)
		f.Params, f.Texts[1] = append(f.Params, f.Params[0]), &second
		return f
	}
	for text, tt := range map[string]struct {
		calls []Failure
		want  int
	}{
		"cannot open /tmp/zz/bar: No such file or directory":                          {[]Failure{open("/tmp/zz/bar"), access("/tmp/z")}, 0},
		"cannot open /tmp/zz/bar: no such file or directory":                          {[]Failure{open("/tmp/zz/bar"), access("/tmp/zz")}, 0},
		"cannot open '/tmp/zz/bar': No such file or directory":                        {[]Failure{open("/tmp/zz/bar"), access("bar")}, 0},
		"bar: No such file or directory":                                              {[]Failure{access("bar"), open("/tmp/zz/bar"), open("/tmp/baz")}, 0},
		"cannot open /tmp/bar: No such file or directory":                             {[]Failure{access("bar"), open("/tmp/baz")}, 0},
		"cannot open a/b: ENOENT":                                                     {[]Failure{open("a/b"), access("a"), open("b")}, 0},
		"cannot read a file of b: No such file or directory":                          {[]Failure{open("b"), access("a")}, 0},
		"cannot open /x: No such file or directory":                                   {[]Failure{open("/x"), access("file"), access("directory")}, 0},
		"No such file or directory: no such directory":                                {[]Failure{open("directory"), access("file")}, 0},
		"a.out: libfoo.so: cannot open shared object file: No such file or directory": {[]Failure{open("/lib/libfoo.so"), open("/usr/lib/libfoo.so"), open("/usr/share/locale/libc.mo")}, 1},
		"cannot move '/long/source' to '/y': No such file or directory":               {[]Failure{two("rename", "/long/source", "/y"), two("rename", "/long/source", "/x")}, 0},
		"cannot open the configuration: No such file or directory":                    {[]Failure{open("/a"), open("/b")}, 1},
		"İ: cannot open /x: No such file or directory":                                {[]Failure{open("/x"), open("/y")}, 0},
	} {
		for i := range tt.calls {
			tt.calls[i].Time = uint64(i)
		}
		fit := fitting(tt.calls, Wish{})
		if got := named(tt.calls, fit, &Message{Time: 9, PID: 1, Text: text}); got != tt.want {
			t.Errorf("%s: call %d, want %d", text, got, tt.want)
		}
	}
}
