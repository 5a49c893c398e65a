// SPDX-License-Identifier: Apache-2.0

package kmod

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"strings"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// A Module is to be loaded under a name that no other has.
type Module struct {
	Name  string
	Funcs []*btf.Func
	Types []btf.Type // that its BTF has besides those of Funcs
}

// CallFile is what a Call is written to.
func (m *Module) CallFile() string { return "/sys/module/" + m.Name + "/parameters/call" }

// Load loads the module into the running kernel.
func (m *Module) Load() error {
	image, err := m.image()
	if err != nil {
		return fmt.Errorf("making module %s: %w", m.Name, err)
	}
	fd, err := unix.MemfdCreate(m.Name, 0)
	if err != nil {
		return fmt.Errorf("making module %s: %w", m.Name, err)
	}
	f := os.NewFile(uintptr(fd), m.Name)
	defer f.Close()
	if _, err := f.Write(image); err != nil {
		return fmt.Errorf("making module %s: %w", m.Name, err)
	}
	// It says for no version that it was built for, and needs none.
	err = unix.FinitModule(fd, "", unix.MODULE_INIT_IGNORE_MODVERSIONS|unix.MODULE_INIT_IGNORE_VERMAGIC)
	if err != nil {
		return fmt.Errorf("loading module %s: %w", m.Name, err)
	}
	return nil
}

// Unload takes the module out of the running kernel. The error is unix.EWOULDBLOCK while something uses it, as programs do that
// have just been taken off its functions.
func (m *Module) Unload() error {
	if err := unix.DeleteModule(m.Name, unix.O_NONBLOCK); err != nil {
		return fmt.Errorf("unloading module %s: %w", m.Name, err)
	}
	return nil
}

// Addresses returns where the functions of a loaded module are, in their order.
func (m *Module) Addresses() ([]uint64, error) {
	data, err := os.ReadFile("/proc/kallsyms")
	if err != nil {
		return nil, err
	}
	at := map[string]uint64{}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) == 4 && fields[3] == "["+m.Name+"]" {
			var addr uint64
			if _, err := fmt.Sscanf(fields[0], "%x", &addr); err != nil {
				return nil, err
			}
			at[fields[2]] = addr
		}
	}
	addrs := make([]uint64, len(m.Funcs))
	for i, f := range m.Funcs {
		if addrs[i] = at[f.Name]; addrs[i] == 0 {
			return nil, fmt.Errorf("no function %s in module %s", f.Name, m.Name)
		}
	}
	return addrs, nil
}

// image makes the module's file for the running kernel.
func (m *Module) image() ([]byte, error) {
	base, err := os.ReadFile("/sys/kernel/btf/vmlinux")
	if err != nil {
		return nil, err
	}
	types := make([]btf.Type, len(m.Funcs))
	for i, f := range m.Funcs {
		types[i] = f
	}
	own, err := splitBTF(append(types, m.Types...), base)
	if err != nil {
		return nil, err
	}
	this, err := m.thisModule()
	if err != nil {
		return nil, err
	}
	o := &object{}
	const ro, rw, rx = elf.SHF_ALLOC, elf.SHF_ALLOC | elf.SHF_WRITE, elf.SHF_ALLOC | elf.SHF_EXECINSTR
	info := "license=GPL\x00name=" + m.Name + "\x00depends=\x00"
	o.section(".modinfo", ro, []byte(info))
	o.section(".BTF", 0, own)
	thisSym := o.symbol(symbol{"__this_module", elf.STT_OBJECT, o.section(".gnu.linkonce.this_module", rw, this), 0, len(this)})
	set := m.text(o, rx, rw)

	// struct kernel_param_ops and struct kernel_param, include/linux/moduleparam.h.
	opsSection := o.section(".data.ops", rw, make([]byte, 32))
	opsSection.pointer(8, set, 0)
	ops := o.symbol(symbol{"call_ops", elf.STT_OBJECT, opsSection, 0, 32})
	name := o.symbol(symbol{"call_name", elf.STT_OBJECT, o.section(".rodata.name", ro, []byte("call\x00")), 0, 5})
	param := o.section("__param", ro, make([]byte, 40))
	param.pointer(0, name, 0)
	param.pointer(8, thisSym, 0)
	param.pointer(16, ops, 0)
	binary.LittleEndian.PutUint16(param.data[24:], 0o200)
	param.data[26] = 0xff // level -1: no initcall
	return o.bytes(), nil
}

// text adds the functions and returns the symbol of set.
func (m *Module) text(o *object, rx, rw elf.SectionFlag) int {
	s := o.section(".text", rx, nil)
	sites := o.section(target.sites, rw, make([]byte, 8*len(m.Funcs)))
	code := o.symbol(symbol{"ksnoop_code", elf.STT_NOTYPE, s, 0, 0})
	set := o.symbol(symbol{"ksnoop_set", elf.STT_FUNC, s, 0, len(target.set)})
	hook := 0
	if target.hook != 0 {
		hook = o.symbol(symbol{name: "__fentry__", typ: elf.STT_NOTYPE})
	}
	s.data = append(s.data, target.set...)
	for i, f := range m.Funcs {
		s.data = align(s.data, funcAlign)
		at := len(s.data)
		s.data = append(s.data, target.fn...)
		if hook != 0 {
			s.relocs = append(s.relocs, reloc{at + target.hookAt, target.hook, hook, -4})
		}
		o.symbol(symbol{f.Name, elf.STT_FUNC, s, at + target.entry, len(target.fn) - target.entry})
		sites.pointer(8*i, code, int64(at))
	}
	for _, name := range target.empty {
		o.section(name, rx, make([]byte, 1))
	}
	return set
}

// thisModule is the module's struct module as the kernel wants to find it:
// zeroes but for the name.
func (m *Module) thisModule() ([]byte, error) {
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		return nil, err
	}
	var t *btf.Struct
	if err := spec.TypeByName("module", &t); err != nil {
		return nil, err
	}
	b := make([]byte, t.Size)
	for _, member := range t.Members {
		if member.Name == "name" {
			copy(b[member.Offset.Bytes():], m.Name)
			return b, nil
		}
	}
	return nil, fmt.Errorf("struct module has no name")
}
