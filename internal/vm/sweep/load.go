// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os/exec"
	"syscall"
)

// mixed is a load of processes, files and memory.
const mixed = `while :; do cat /proc/self/stat /proc/meminfo; ls -R /sys/kernel; dd if=/dev/zero bs=4k count=50; mkdir /d; touch /d/f; rm -r /d; done`

// A load keeps the guest busy while it is on. It would take half of the guest from what
// prepares a batch, which takes most of the time.
type load struct{ shell *exec.Cmd }

// startLoad returns a load that is off.
func startLoad() (load, error) {
	l := load{exec.Command("sh", "-c", mixed)}
	l.shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := l.shell.Start(); err != nil {
		return l, err
	}
	return l, l.off()
}

func (l load) on() error  { return syscall.Kill(-l.shell.Process.Pid, syscall.SIGCONT) }
func (l load) off() error { return syscall.Kill(-l.shell.Process.Pid, syscall.SIGSTOP) }
