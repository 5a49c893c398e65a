// SPDX-License-Identifier: Apache-2.0

package tracer_test

import (
	"context"
	"fmt"
	"time"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/tracer"
)

// The reads of more than a page that a process makes within ten seconds, with the name of
// the file.
func Example() {
	kernel, err := tracer.Open()
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	t, err := kernel.Attach(ctx, tracer.Request{
		Specs:  []string{"vfs_read(count > 4096, file->f_path.dentry->d_name.name, return > 0)"},
		Filter: bpf.Filter{PIDs: []uint32{1234}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer t.Close()
	for call, err := range t.Calls(ctx) {
		if err != nil {
			fmt.Println(err)
			return
		}
		n, _ := call.Value("return").Int()
		fmt.Println(call.Comm, call.Value("file->f_path.dentry->d_name.name"), n)
	}
}

// Why mounting fails: the functions from the system call to the one that has refused, and
// what each returned.
func ExampleTracer_Sessions() {
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	kernel, err := tracer.Open()
	if err != nil {
		fmt.Println(err)
		return
	}
	t, err := kernel.Attach(ctx, tracer.Request{Entry: []string{"path_mount"}, Allow: []string{"*mount*", "*fs_*"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer t.Close()
	for s, err := range t.Sessions(ctx) {
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, call := range s.Calls {
			fmt.Println(s.Comm, call.Function, call.Text, call.Duration)
		}
	}
}
