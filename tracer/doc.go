// SPDX-License-Identifier: Apache-2.0

// Package tracer traces functions of the running kernel and yields what they were called
// with and what they returned, as ksnoop trace prints it, to other programs.
//
// Open opens the kernel. Attach takes a Request: SPECs in the language of docs/language.md,
// and whose calls are wanted. It resolves them by the kernel's own types, generates BPF
// programs and attaches these. Calls then yields one Call for each record; a Request with
// Entry is for sessions, which Sessions yields. Losses says what is missing, by cause. Close
// takes all of it off the kernel again:
//
//	kernel, err := tracer.Open()
//	...
//	t, err := kernel.Attach(ctx, tracer.Request{Specs: []string{"vfs_read(count > 4096, return > 0)"}})
//	...
//	defer t.Close()
//	for call, err := range t.Calls(ctx) {
//		if err != nil {
//			return err
//		}
//		fmt.Println(call)
//	}
//
// It takes root, or the capabilities that docs/safety.md lists, and Linux 6.1 or newer.
// What ksnoop does to keep the machine alive is done here too: a guard against programs that
// run within each other, and a limit of what tracing may take.
//
// A Value carries its bytes and its C type. AppendText writes it as ksnoop does; package
// btfprint writes it in other ways.
//
// Before version 1, names and fields of this package may change with a minor version. Call,
// Session and Value will: they are to become the typed events that ksnoop writes as JSON.
package tracer
