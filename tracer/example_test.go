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
	t, err := kernel.Attach(context.Background(), tracer.Request{
		Specs:  []string{"vfs_read(count > 4096, file->f_path.dentry->d_name.name, return > 0)"},
		Filter: bpf.Filter{PIDs: []uint32{1234}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer t.Close()
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	for call, err := range t.Calls(ctx) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if call.Kind == bpf.KindLost {
			continue // Losses counts them
		}
		name, _ := call.Value("file->f_path.dentry->d_name.name").Text()
		n, _ := call.Value("return").Int()
		fmt.Println(call.Comm, name, n)
	}
	fmt.Println(t.Losses())
}

// Why mounting fails: the functions from the system call to the one that has refused, and
// what each returned.
func ExampleTracer_Sessions() {
	kernel, err := tracer.Open()
	if err != nil {
		fmt.Println(err)
		return
	}
	t, err := kernel.Attach(context.Background(), tracer.Request{Entry: []string{"path_mount"}, Allow: []string{"*mount*", "*fs_*"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer t.Close()
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
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
