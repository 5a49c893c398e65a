// SPDX-License-Identifier: Apache-2.0

// Package container tells from the path of a cgroup which container and which pod it belongs to.
// Runtimes name cgroups as they like, so it looks for what they have in common: a container's
// ID of 64 hexadecimal digits, alone or behind the name of the runtime, and the UID of a pod behind
// "pod". It asks nobody: what it says of a path is true of a recording, too.
package container

import (
	"strings"
)

// An ID says which container a cgroup belongs to. All of it is empty for one that is in none.
type ID struct {
	Container string
	Pod       string // its UID, as Kubernetes writes it
	Runtime   string // docker, containerd, cri-o or podman; "" if the path does not tell
}

// prefixes are what stands before the ID of a container, and whose it is.
var prefixes = [...]struct{ prefix, runtime string }{
	{"docker-", "docker"}, {"cri-containerd-", "containerd"}, {"nerdctl-", "containerd"}, {"crio-", "cri-o"}, {"libpod-", "podman"}, {"", ""},
}

// parents are cgroups right above those of containers, and whose they are.
var parents = map[string]string{"docker": "docker", "cri-containerd": "containerd", "crio": "cri-o"}

// Of returns the innermost container that a cgroup is in. A pod is the innermost one, too: a
// container of its node, as in a cluster inside of containers, is not part of it.
func Of(path string) (id ID) {
	above := ""
	for part := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '/' || r == ':' }) { // SLICE:RUNTIME:ID where runc has no systemd
		name := strings.TrimSuffix(strings.TrimSuffix(part, ".scope"), ".slice")
		if uid := pod(name); uid != "" {
			id = ID{Pod: uid}
		} else if found, runtime := container(name); found != "" {
			if runtime == "" {
				runtime = parents[above]
			}
			id.Container, id.Runtime = found, runtime
		}
		above = part
	}
	return id
}

// container returns the ID in the name of a container's cgroup.
func container(name string) (id, runtime string) {
	for _, p := range prefixes {
		if id, ok := strings.CutPrefix(name, p.prefix); ok && len(id) == 64 && digits(id) {
			return id, p.runtime
		}
	}
	return "", ""
}

// pod returns the UID in the name of a pod's cgroup. systemd has _ in place of -. A pod that the
// kubelet has from a file has a hash for its UID.
func pod(name string) string {
	at := strings.LastIndex(name, "pod")
	if at < 0 || at > 0 && name[at-1] != '-' {
		return ""
	}
	uid := strings.ReplaceAll(name[at+len("pod"):], "_", "-")
	if len(uid) == 32 && digits(uid) {
		return uid
	}
	parts := strings.Split(uid, "-")
	if len(parts) != 5 {
		return ""
	}
	for i, n := range [...]int{8, 4, 4, 4, 12} {
		if len(parts[i]) != n || !digits(parts[i]) {
			return ""
		}
	}
	return uid
}

// digits reports whether a text has hexadecimal digits only.
func digits(text string) bool { return strings.Trim(text, "0123456789abcdef") == "" }
