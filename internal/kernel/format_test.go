// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// execFormat is made up of lines of several format files of Linux 6.12.
const execFormat = `name: sched_process_exec
ID: 300
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:int __syscall_nr;	offset:8;	size:4;	signed:1;
	field:__data_loc char[] filename;	offset:8;	size:4;	signed:0;
	field:pid_t pid;	offset:12;	size:4;	signed:1;
	field:char prev_comm[16];	offset:16;	size:16;	signed:0;
	field:const char *const * argv;	offset:32;	size:8;	signed:0;
	field:__rel_loc unsigned long[] mask;	offset:40;	size:4;	signed:0;
	field:struct sockaddr __user * addr;	offset:48;	size:8;	signed:0;

print fmt: "filename=%s pid=%d", __get_str(filename), REC->pid
`

func TestParseFormat(t *testing.T) {
	got, err := parseFormat(strings.NewReader(execFormat))
	want := []Field{
		{Name: "filename", Decl: "char", Offset: 8, Size: 4, Located: true},
		{Name: "pid", Decl: "pid_t", Offset: 12, Size: 4, Signed: true},
		{Name: "prev_comm", Decl: "char", Array: true, Offset: 16, Size: 16},
		{Name: "argv", Decl: "const char *const *", Offset: 32, Size: 8},
		{Name: "mask", Decl: "unsigned long", Offset: 40, Size: 4, RelLocated: true},
		{Name: "addr", Decl: "struct sockaddr __user *", Offset: 48, Size: 8},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestParseFormatFaults(t *testing.T) {
	for _, line := range []string{
		"field:int x;\toffset:8;\tsize:x;", "field:int x;\toffset:-1;\tsize:4;", "field:int x;\toffset:8;\tsize:99999999999;",
		"field:x;\toffset:8;\tsize:4;", "field:u32 buf;\toffset:8;\tsize:0;", "field:;\toffset:8;\tsize:4;", "field:int x;", "field:int x;\toffset:8;\tsize:0;",
	} {
		if fields, err := parseFormat(strings.NewReader(line)); err == nil {
			t.Errorf("%q: no error, but %v", line, fields)
		}
	}
}

// FuzzParseFormat: any file is parsed or refused; what is parsed has a name, a
// type and a size.
func FuzzParseFormat(f *testing.F) {
	f.Add(execFormat)
	f.Fuzz(func(t *testing.T, text string) {
		fields, err := parseFormat(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, field := range fields {
			if field.Name == "" || field.Decl == "" || field.Size == 0 {
				t.Errorf("%+v", field)
			}
		}
	})
}
