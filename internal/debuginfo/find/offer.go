// SPDX-License-Identifier: Apache-2.0

package find

import (
	"io/fs"
	"slices"
	"strings"
)

// An Offer says where a distribution has the debug info of a kernel.
type Offer struct {
	Package string // "" if no package has it
	Command string // how to get it; "" if unknown
}

// offer identifies the distribution below root and returns its offer.
func offer(root fs.FS, k Kernel) Offer {
	for _, file := range []string{"etc/os-release", "usr/lib/os-release"} {
		text, err := fs.ReadFile(root, file)
		if err != nil {
			continue
		}
		for _, id := range distributions(string(text)) {
			if o := offerOf(id, k); o.Command != "" {
				return o
			}
		}
	}
	return Offer{}
}

// distributions returns the ID in an os-release file and the IDs that it says it is like;
// see os-release(5).
func distributions(text string) []string {
	var id, like []string
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		value = strings.Trim(value, `"'`)
		switch key {
		case "ID":
			id = []string{value}
		case "ID_LIKE":
			like = strings.Fields(value)
		}
	}
	return append(id, like...)
}

// offerOf returns the package and the command of a distribution that is known.
func offerOf(distribution string, k Kernel) Offer {
	switch distribution {
	case "debian":
		if !slices.ContainsFunc([]string{"-amd64", "-arm64", "-arm64-16k"}, func(end string) bool { return strings.HasSuffix(k.Release, end) }) {
			return Offer{} // another kernel on Debian
		}
		name := "linux-image-" + k.Release + "-dbg"
		return Offer{name, "apt-get install " + name}
	case "ubuntu":
		// Ubuntu has it in an archive of its own, ddebs.ubuntu.com, which must be added.
		name := "linux-image-unsigned-" + k.Release + "-dbgsym"
		return Offer{name, "apt-get install " + name + " (from Ubuntu's archive of debug symbols)"}
	case "fedora", "rhel", "centos":
		// The release ends with the architecture, as package names do, and behind it with a flavour: "5.14.0-503.el9.aarch64+64k".
		release, flavour, other := strings.Cut(k.Release, "+")
		name := "kernel-debuginfo-" + release
		if other && flavour == "" {
			return Offer{} // built of a tree with changes
		}
		if other {
			name = "kernel-" + flavour + "-debuginfo-" + release
		}
		return Offer{name, "dnf install --enablerepo='*debug*' " + name}
	case "amzn":
		name := "kernel-debuginfo-" + k.Release
		return Offer{name, "dnf debuginfo-install kernel-" + k.Release}
	case "suse", "opensuse":
		// The flavour is the last part of the release: "6.4.0-150600-default".
		name := "kernel-" + k.Release[strings.LastIndexByte(k.Release, '-')+1:] + "-debuginfo"
		return Offer{name, "zypper install " + name}
	case "arch":
		return Offer{Command: "debuginfod-find debuginfo " + k.BuildID.String()}
	}
	return Offer{}
}
