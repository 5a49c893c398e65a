// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/vm/wire"
)

type mount struct {
	dir, kind, options string
	optional           bool
}

// mounts are in order: some lie below others.
var mounts = [...]mount{
	{dir: "/proc", kind: "proc"},
	{dir: "/sys", kind: "sysfs"},
	{dir: "/dev", kind: "devtmpfs"},
	{dir: "/dev/pts", kind: "devpts", options: "ptmxmode=0666"},
	{dir: "/dev/shm", kind: "tmpfs"},
	{dir: "/tmp", kind: "tmpfs"},
	{dir: "/run", kind: "tmpfs"},
	{dir: "/sys/kernel/tracing", kind: "tracefs"},
	{dir: "/sys/kernel/debug", kind: "debugfs"},
	{dir: "/sys/fs/bpf", kind: "bpf"},
	{dir: "/sys/fs/cgroup", kind: "cgroup2"},
	{dir: "/sys/kernel/security", kind: "securityfs", optional: true},
}

// sysctls make the guest's kernel tell root what a tracer's tests must see.
var sysctls = [...][2]string{
	{"kernel/kptr_restrict", "0"},
	{"kernel/printk", "7 4 1 7"},
	{"net/ipv4/ping_group_range", "0 2147483647"},
}

func setUp(cfg wire.Config) error {
	for _, m := range mounts {
		if err := m.do(); err != nil && !m.optional {
			return fmt.Errorf("mount %s: %w", m.dir, err)
		}
	}
	for _, s := range sysctls {
		if err := os.WriteFile("/proc/sys/"+s[0], []byte(s[1]), 0); err != nil {
			return fmt.Errorf("sysctl: %w", err)
		}
	}
	for _, file := range cfg.Modules {
		if err := insertModule(file); err != nil {
			return fmt.Errorf("insert module %s: %w", file, err)
		}
	}
	if err := loopbackUp(); err != nil {
		return fmt.Errorf("set lo up: %w", err)
	}
	if err := unix.Sethostname([]byte("guest")); err != nil {
		return err
	}
	for name, value := range map[string]string{
		"PATH":         "/bin:/sbin:/usr/bin:/usr/sbin",
		"HOME":         "/root",
		"TERM":         "dumb",
		"KSNOOP_GUEST": cfg.Name,
	} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return nil
}

func (m mount) do() error {
	if err := os.MkdirAll(m.dir, 0o755); err != nil {
		return err
	}
	return unix.Mount(m.kind, m.dir, m.kind, 0, m.options)
}

func insertModule(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.FinitModule(int(f.Fd()), "", 0)
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
}

// openPort finds a virtio port by its name. The device's probing goes on after
// the modules are in, so the port may be late.
func openPort(name string) (*os.File, error) {
	const patience = 30 * time.Second
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		names, err := filepath.Glob("/sys/class/virtio-ports/*/name")
		if err != nil {
			return nil, err
		}
		for _, file := range names {
			b, err := os.ReadFile(file)
			if err != nil || strings.TrimSpace(string(b)) != name {
				continue
			}
			f, err := os.OpenFile("/dev/"+filepath.Base(filepath.Dir(file)), os.O_RDWR, 0)
			if errors.Is(err, fs.ErrNotExist) {
				break // the node is made after the sysfs entry
			}
			return f, err
		}
	}
	return nil, fmt.Errorf("no virtio port named %q within %v", name, patience)
}
