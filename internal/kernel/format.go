// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// A Field is a field of a tracepoint's record or a parameter of a system call, as a format
// file of tracefs declares it.
type Field struct {
	Name string
	// Decl is its C type, or the type of its elements: "const char *", "umode_t".
	Decl string
	// Array says that the field is an array; Size is that of all elements, in bytes.
	Array  bool `json:",omitempty"`
	Offset uint32
	Size   uint32
	Signed bool `json:",omitempty"`
	// Located and RelLocated say that the field tells where the array is. Its low 16 bits
	// are an offset, from the start of the record or from the end of the field; the upper
	// 16 bits are the length in bytes.
	Located    bool `json:",omitempty"`
	RelLocated bool `json:",omitempty"`
}

// String returns the declaration of the field as in C.
func (f Field) String() string {
	sep := " "
	if strings.HasSuffix(f.Decl, "*") {
		sep = ""
	}
	text := f.Decl + sep + f.Name
	if f.Array || f.Located || f.RelLocated {
		text += "[]"
	}
	return text
}

// parseFormat parses the fields of a format file, except those that all tracepoints have:
//
//	field:char prev_comm[16];	offset:8;	size:16;	signed:0;
//	field:__data_loc char[] filename;	offset:8;	size:4;	signed:0;
func parseFormat(r io.Reader) ([]Field, error) {
	var fields []Field
	in := bufio.NewScanner(r)
	for in.Scan() {
		line, ok := strings.CutPrefix(strings.TrimSpace(in.Text()), "field:")
		if !ok {
			continue
		}
		f, err := parseField(line)
		if err != nil {
			return nil, err
		}
		if f.Size != 0 && !strings.HasPrefix(f.Name, "common_") && f.Name != "__syscall_nr" {
			fields = append(fields, f)
		}
	}
	return fields, in.Err()
}

// parseField parses the line of one field.
func parseField(line string) (f Field, err error) {
	decl, rest, _ := strings.Cut(line, ";")
	values := map[string]uint64{}
	for part := range strings.SplitSeq(rest, ";") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		key, value, _ := strings.Cut(part, ":")
		if values[key], err = strconv.ParseUint(value, 10, 31); err != nil {
			return f, fmt.Errorf("field %q: %s: %w", decl, key, err)
		}
	}
	f.Offset, f.Size, f.Signed = uint32(values["offset"]), uint32(values["size"]), values["signed"] != 0
	f.declare(strings.Join(strings.Fields(decl), " "))
	if f.Name == "" || f.Decl == "" || f.Size == 0 && !f.Array { // ftrace's own events end in u32 buf[]
		return f, fmt.Errorf("field %q has no name, type or size", decl)
	}
	return f, nil
}

// declare splits a declaration. The name is the last word. Brackets after the name make it
// an array; for a located array, they come before the name.
func (f *Field) declare(decl string) {
	decl, f.Located = strings.CutPrefix(decl, "__data_loc ")
	decl, f.RelLocated = strings.CutPrefix(decl, "__rel_loc ")
	if open := strings.IndexByte(decl, '['); open >= 0 && strings.HasSuffix(decl, "]") {
		decl, f.Array = decl[:open], true
	}
	cut := strings.LastIndexAny(decl, " *]") + 1
	f.Name, f.Decl = decl[cut:], strings.TrimSpace(decl[:cut])
	if f.Located || f.RelLocated {
		f.Decl = strings.TrimSpace(strings.TrimSuffix(f.Decl, "[]"))
	}
}
