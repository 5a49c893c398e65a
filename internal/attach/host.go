// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"io"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
)

// A host is the kernel that is traced, as far as a Tracer asks it for something or
// changes it. There is one, running; tests have another, which refuses what a kernel
// refuses.
type host interface {
	loadEngine(*ebpf.CollectionSpec, ebpf.CollectionOptions) (engine, error)
	loadProgram(*ebpf.ProgramSpec, ebpf.CollectionOptions) (program, error)
	loadTracing(*tracingProgram, *btf.Cache) (program, error)
	// moduleTypes returns the BTF object of a module.
	moduleTypes(name string) (object, error)
	// loadedProgram opens a BPF program that somebody has loaded.
	loadedProgram(ebpf.ProgramID) (object, error)
	// measure has the kernel measure how long programs run, until the result is closed.
	measure() (io.Closer, error)
	// ownTime returns the CPU time that ksnoop has taken.
	ownTime() time.Duration
	tracefs() tracefs
	// has tries a capability.
	has(Capability) error
	// largeArrays reports whether a value of an array may have more than 4 MiB.
	largeArrays() bool
	// userMulti reports whether there is uprobe.multi (Linux 6.6).
	userMulti() bool
	// settler returns what waits for programs. What it takes of the kernel it takes now: to wait, later on, does not fail for want
	// of memory or descriptors.
	settler() (settler, error)
	// pidsAreOurs reports whether we are known to be in the initial PID namespace.
	pidsAreOurs() bool
	// ended reports whether a process of our PID namespace is gone, its parent knowing of its end.
	ended(pid int) bool
}

// A settler waits until all programs that run at the moment have ended.
type settler interface {
	closer
	settle() error
}

// An engine is the BPF engine once it is loaded.
type engine interface {
	// associate has a generated program use the engine's maps.
	associate(asm.Instructions) error
	// program returns one of the engine's own; nil if the settings have none of that name.
	program(name string) program
	table(name string) table
	variable(name string) variable
	// memory maps the values of an array, of so many bytes.
	memory(name string, size int) ([]byte, error)
	unmap([]byte) error
	// records opens the ring buffer.
	records() (recordReader, error)
	Close()
}

// A table is a map of the engine.
type table interface {
	Put(key, value any) error
	Update(key, value any, flags ebpf.MapUpdateFlags) error
	Lookup(key, value any) error
	Delete(key any) error
}

// A variable is one of the engine's.
type variable interface {
	Set(any) error
	Get(any) error
}

// A recordReader reads the ring buffer.
type recordReader interface {
	ReadInto(*ringbuf.Record) error
	SetDeadline(time.Time)
	Flush() error
	AvailableBytes() int
	BufferSize() int
	Close() error
}

// A program is one that the kernel has loaded. Each of its methods that return a closer
// hooks it where its name says.
type program interface {
	closer
	Stats() (*ebpf.ProgramStats, error)
	// trampoline hooks at what it was loaded for: fentry, fexit, a tracepoint with BTF.
	trampoline() (closer, error)
	fsession() (closer, error)
	tracingMulti(as ebpf.AttachType, functions []btf.TypeID, cookies []uint64) (closer, error)
	kprobe(symbol string, o *link.KprobeOptions) (closer, error)
	kretprobe(symbol string, o *link.KprobeOptions) (closer, error)
	// kprobeAt hooks at an instruction, or at the returns of the function that begins there.
	kprobeAt(addr uint64, e end) (closer, error)
	kprobeMulti(e end, o link.KprobeMultiOptions) (closer, error)
	// tracefsEvent hooks at an event by its number.
	tracefsEvent(id uint64) (closer, error)
	tracepoint(group, name string) (closer, error)
	rawTracepoint(name string) (closer, error)
	// uprobe hooks at an instruction of a file, or at the returns of the function that begins there.
	uprobe(file userFile, o *link.UprobeOptions, e end) (closer, error)
	// uprobeMulti does so at many. The program was loaded for that.
	uprobeMulti(file userFile, o *link.UprobeMultiOptions, e end) (closer, error)
	// call has the kernel call the function that tests of its own call (harmless).
	call() error
	// iterate runs an iterator; what it prints is to be read.
	iterate() (io.ReadCloser, error)
}

// A counting closer knows how often the kernel did not call what it has hooked.
type counting interface {
	closer
	missed() (n uint64, known bool)
}
