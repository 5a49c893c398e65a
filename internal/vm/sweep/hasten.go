// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// haste is a module that clears ints of the kernel.
const haste = "/lib/ksnoop/ksnoop_haste.ko"

// restless has a kernel wait less for grace periods, too.
const restless = "rcupdate.rcu_expedited=1"

// hasten has RCU tasks not rest between two grace periods, and look at once whether tasks that ran
// have slept, if the guest has the module for it. Linux 6.12 waits for such a period whenever it
// takes the last program off a function, one function after another. RCU rests for a tenth of a
// second after each of them, and waits as long before it looks again.
func hasten() error {
	module, err := os.Open(haste)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer module.Close()
	types, err := btf.LoadKernelSpec()
	if err != nil {
		return err
	}
	var tasks *btf.Struct
	if err := types.TypeByName("rcu_tasks", &tasks); err != nil {
		return fmt.Errorf("the kernel's struct rcu_tasks: %w", err)
	}
	var offsets []uint64
	for _, member := range tasks.Members {
		if member.Name == "gp_sleep" || member.Name == "init_fract" {
			offsets = append(offsets, uint64(member.Offset.Bytes()))
		}
	}
	if len(offsets) != 2 {
		return errors.New("the kernel's struct rcu_tasks lacks gp_sleep or init_fract")
	}
	symbols, err := os.Open("/proc/kallsyms")
	if err != nil {
		return err
	}
	defer symbols.Close()
	at, err := rests(symbols, offsets)
	if err != nil {
		return err
	}
	if err := unix.FinitModule(int(module.Fd()), "at="+strings.Join(at, ","), 0); err != nil {
		return fmt.Errorf("inserting %s: %w", haste, err)
	}
	return nil
}

// rests returns where the kernel keeps how long RCU tasks rests and waits, by its symbols and
// where in the struct that is.
func rests(symbols io.Reader, offsets []uint64) (at []string, err error) {
	lines := bufio.NewScanner(symbols)
	for lines.Scan() {
		fields := strings.Fields(lines.Text()) // ffffffff82a4b1c0 d rcu_tasks
		if len(fields) != 3 || fields[2] != "rcu_tasks" && fields[2] != "rcu_tasks_rude" {
			continue
		}
		address, err := strconv.ParseUint(fields[0], 16, 64)
		if err != nil {
			return nil, fmt.Errorf("/proc/kallsyms: %w", err)
		}
		for _, offset := range offsets {
			at = append(at, strconv.FormatUint(address+offset, 10))
		}
	}
	return at, lines.Err()
}
