// SPDX-License-Identifier: Apache-2.0

// Package vm boots Debian's packaged kernels in QEMU, without KVM, and runs
// static programs in them. A guest has everything in its initramfs; one virtio
// port carries commands to it and their output, byte for byte, and exit status
// back, apart from the kernel's own messages.
//
//	k, err := vm.FindKernel(ctx, "6.12")
//	m, err := vm.Guest{Kernel: k}.Start(ctx)
//	defer m.Close()
//	status, err := m.Run(ctx, vm.Command{Args: []string{"uname", "-r"}, Stdout: os.Stdout})
package vm

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/vm/guest"
	"github.com/ksnoop/ksnoop/internal/vm/wire"
)

// A Guest says what machine to boot. Its zero value but for Kernel is useful.
type Guest struct {
	Kernel  Kernel
	Memory  int      // MiB; 0 means 2048
	CPUs    int      // 0 means 2
	Modules []string // kernel modules to insert, beside those that the guest itself needs
	Spare   []string // kernel modules that it has as files, /lib/modules/NAME.ko, with what they need
	Files   []File   // put into its root file system
	Append  []string // more kernel parameters
	Without []string // features that the CPU does not have, on amd64: "cx16"

	// ICount makes the guest's clock count instructions: a nanosecond is an
	// instruction, on one CPU. Address randomisation is off, so that figures
	// do not change from boot to boot.
	ICount bool

	Console io.Writer // gets the kernel's messages as they come
}

// virtioModules are what the port needs; a kernel may have them built in.
var virtioModules = [...]string{"virtio_pci", "virtio_console"}

// bootPatience is many times what a boot takes on a busy machine.
const bootPatience = 10 * time.Minute

// Start boots the guest and returns when it is ready for commands.
func (g Guest) Start(ctx context.Context) (*Machine, error) {
	if _, err := exec.LookPath(g.platform().qemu); err != nil {
		return nil, fmt.Errorf("%w (Debian package %s, or `make setup`)", err, g.platform().qemuPackage)
	}
	initrd, err := g.initrd(ctx)
	if err != nil {
		return nil, fmt.Errorf("build initramfs: %w", err)
	}
	defer initrd.Close()
	m, err := g.launch(initrd)
	if err != nil {
		return nil, fmt.Errorf("start qemu: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, bootPatience)
	defer cancel()
	if err := m.greet(ctx); err != nil {
		m.Close()
		return nil, fmt.Errorf("boot kernel %s: %w", g.Kernel.Release, err)
	}
	return m, nil
}

// initrd returns an open file in memory, which leaves nothing behind however
// this process ends.
func (g Guest) initrd(ctx context.Context) (*os.File, error) {
	fd, err := unix.MemfdCreate("initrd", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "initrd")
	if err := g.writeInitrd(ctx, f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (g Guest) writeInitrd(ctx context.Context, w io.Writer) error {
	program, err := Build(ctx, g.Kernel.Arch, "internal/vm/init")
	if err != nil {
		return err
	}
	modules, err := g.Kernel.modules(slices.Concat(virtioModules[:], g.Modules)...)
	if err != nil {
		return err
	}
	all, err := g.Kernel.modules(slices.Concat(virtioModules[:], g.Modules, g.Spare)...) // begins with modules
	if err != nil {
		return err
	}
	program.Guest = "/init"
	files := []File{program}
	cfg := wire.Config{Name: g.Kernel.Name}
	for i, m := range all {
		at := "/lib/modules/" + m.name + ".ko"
		files = append(files, File{Guest: at, Data: m.data})
		if i < len(modules) {
			cfg.Modules = append(cfg.Modules, at)
		}
	}
	b, err := json.Marshal(cfg)
	if err != nil {
		return err
	}
	files = append(files, File{Guest: wire.ConfigPath, Data: b}, File{Guest: "/etc/passwd", Data: []byte("root:x:0:0::/root:/bin/sh\n")})
	a := newInitramfs(w)
	for _, f := range slices.Concat(files, g.Files) {
		if err := a.add(f); err != nil {
			return err
		}
	}
	if err := a.folder("/root"); err != nil {
		return err
	}
	if err := a.addBusybox(ctx, g.Kernel.Arch); err != nil {
		return err
	}
	return a.close()
}

// A platform is what QEMU must be told of an architecture.
type platform struct {
	qemu, qemuPackage string
	machine           []string
	console           string // as the kernel names it
	param             string // of the kernel
}

func (g Guest) platform() platform {
	if g.Kernel.Arch == "arm64" {
		return platform{
			qemu: "qemu-system-aarch64", qemuPackage: "qemu-system-arm",
			// With -cpu max a boot takes over a minute, and the kernel reports lockups.
			machine: []string{"-M", "virt", "-cpu", "cortex-a72"},
			console: "ttyAMA0",
		}
	}
	return platform{
		qemu: "qemu-system-x86_64", qemuPackage: "qemu-system-x86",
		machine: []string{"-cpu", g.cpu()},
		console: "ttyS0",
		// While it boots the kernel looks whether the timer's interrupts come, and panics if a busy machine has let QEMU make none.
		param: "no_timer_check",
	}
}

// cpu is what a guest on amd64 has. With enhanced "rep movsb", the kernel copies and clears
// memory in bytes, which QEMU does one at a time: without it booting and starting ksnoop take QEMU 8 %
// less time. Without AVX starting ksnoop takes less again: QEMU needs more time for these instructions than they save. Where instructions are counted the CPU stays as it was, as do the costs.
func (g Guest) cpu() string {
	cpu := "max"
	if !g.ICount {
		cpu += ",-erms,-avx,-avx2,-fma,-f16c"
	}
	for _, feature := range g.Without {
		cpu += ",-" + feature
	}
	return cpu
}

// The child's descriptors, in the order of exec.Cmd.ExtraFiles.
const (
	portFD   = 3
	initrdFD = 4
)

func (g Guest) qemuArgs() []string {
	memory, cpus := g.Memory, g.CPUs
	if memory == 0 {
		memory = 2048
	}
	if cpus == 0 {
		cpus = 2
	}
	p := g.platform()
	kernelArgs := "console=" + p.console + " quiet panic=-1 oops=panic rdinit=/init " + p.param
	// One host thread serves all CPUs. With one thread each, QEMU 7.2 loses an
	// interprocessor interrupt now and then while the kernel patches its code,
	// which is what attaching a tracer does: the guest then hangs.
	accel := []string{"-accel", "tcg,thread=single"}
	if g.ICount {
		cpus = 1
		kernelArgs += " nokaslr " + guest.ClockParam
		accel = []string{"-accel", "tcg", "-icount", "shift=0,sleep=off"}
	}
	for _, a := range g.Append {
		kernelArgs += " " + a
	}
	return append(slices.Concat(p.machine, accel),
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-m", strconv.Itoa(memory), "-smp", strconv.Itoa(cpus),
		"-serial", "stdio",
		"-device", "virtio-serial-pci",
		"-chardev", fmt.Sprintf("socket,id=port,fd=%d", portFD),
		"-device", "virtserialport,chardev=port,name="+wire.PortName,
		"-kernel", g.Kernel.Vmlinuz,
		"-initrd", fmt.Sprintf("/proc/self/fd/%d", initrdFD),
		"-append", kernelArgs,
	)
}

// launch starts QEMU with our end of the guest's port.
func (g Guest) launch(initrd *os.File) (*Machine, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	theirs := os.NewFile(uintptr(fds[1]), "port")
	defer theirs.Close()
	if err := unix.SetNonblock(fds[0], true); err != nil { // so that Close ends a Read
		unix.Close(fds[0])
		return nil, err
	}
	m := &Machine{
		port:   os.NewFile(uintptr(fds[0]), "port"),
		exited: make(chan struct{}),
	}
	m.conn = wire.NewConn(m.port)
	m.console.live = g.Console
	m.qemu = exec.Command(g.platform().qemu, g.qemuArgs()...)
	m.qemu.ExtraFiles = []*os.File{portFD - 3: theirs, initrdFD - 3: initrd}
	m.qemu.Stdout = &m.console
	m.qemu.Stderr = &m.console
	// A guest must not survive us, not even a SIGKILL.
	m.qemu.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := m.qemu.Start(); err != nil {
		m.port.Close()
		return nil, err
	}
	go func() {
		_ = m.qemu.Wait() // how QEMU ended says less than the console
		close(m.exited)
	}()
	return m, nil
}
