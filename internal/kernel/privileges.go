// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Privileges say what a process may do.
type Privileges struct {
	UID  int    // effective
	caps uint64 // effective capabilities as a bit mask
	// contained says that the user namespace is not the initial one, so that the capabilities let nothing be traced.
	contained bool
}

// has reports whether p has a capability that counts for tracing.
func (p Privileges) has(capability uint) bool { return !p.contained && p.caps>>capability&1 != 0 }

// tracing reports whether p allows loading and attaching tracing programs.
func (p Privileges) tracing() bool {
	return p.has(unix.CAP_SYS_ADMIN) || p.has(unix.CAP_BPF) && p.has(unix.CAP_PERFMON)
}

// Privileges returns the privileges of this process.
func (v *View) Privileges() (Privileges, error) {
	text, err := v.line("proc/self/status")
	if err != nil {
		return Privileges{}, err
	}
	p, err := parseStatus(text)
	// A namespace may map all users as the initial one does; then the kernel refuses later.
	if users, err := v.line("proc/self/uid_map"); err == nil {
		p.contained = !slices.Equal(strings.Fields(users), []string{"0", "0", "4294967295"})
	}
	return p, err
}

// parseStatus reads the effective user and capabilities from /proc/self/status.
func parseStatus(text string) (p Privileges, err error) {
	var uid, caps bool
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		words := strings.Fields(value)
		switch {
		case key == "Uid" && len(words) == 4: // real, effective, saved, file system
			p.UID, err = strconv.Atoi(words[1])
			uid = err == nil
		case key == "CapEff" && len(words) == 1:
			p.caps, err = strconv.ParseUint(words[0], 16, 64)
			caps = err == nil
		}
		if err != nil {
			return p, fmt.Errorf("reading /proc/self/status: %w", err)
		}
	}
	if !uid || !caps {
		return p, errors.New("reading /proc/self/status: no Uid or CapEff")
	}
	return p, nil
}
