// SPDX-License-Identifier: Apache-2.0

package container

import (
	"slices"
	"strings"

	"github.com/ksnoop/ksnoop/internal/glob"
)

// A Group is what is known of a cgroup. Its zero value is one of which nothing is known.
type Group struct {
	Path string // below the mount, "/" for the mount itself
	Names
}

// Names are what people call a container and its pod. Each has letters, digits and ._- only, or is
// empty.
type Names struct {
	Container      string
	Pod, Namespace string
}

// shortID is how many digits of a container's ID people are used to.
const shortID = 12

// ContainerText returns what a person calls the container: its name, behind that of the pod, or else the beginning of
// its ID; "" if the cgroup is in none.
func (g Group) ContainerText() string {
	id := Of(g.Path)
	switch {
	case id.Container == "":
		return ""
	case g.Container == "":
		return id.Container[:shortID]
	case g.Pod == "":
		return g.Container
	}
	return g.PodText() + "/" + g.Container
}

// PodText returns what a person calls the pod: NAMESPACE/NAME, or else its UID; "" if the cgroup is in none.
func (g Group) PodText() string {
	switch {
	case g.Pod == "":
		return Of(g.Path).Pod
	case g.Namespace == "":
		return g.Pod
	}
	return g.Namespace + "/" + g.Pod
}

// A Selector says of which containers and pods something is wanted. A cgroup must be in one of each list that is not
// empty. The zero value selects all.
type Selector struct {
	Containers []string // each the beginning of an ID, or a glob for names
	Pods       []string // each the beginning of a UID, or a glob for names: NAME or NAMESPACE/NAME
}

// Empty reports whether the selector selects all.
func (s *Selector) Empty() bool { return len(s.Containers)+len(s.Pods) == 0 }

// Selects reports whether a container or pod is selected.
func (s *Selector) Selects(id ID, names Names) bool {
	container := func(pattern string) bool {
		return id.Container != "" && (pattern == "*" || begins(id.Container, pattern) || named(pattern, names.Container))
	}
	pod := func(pattern string) bool {
		return id.Pod != "" && (pattern == "*" || begins(id.Pod, pattern) || named(pattern, names.Pod) || named(pattern, names.Namespace+"/"+names.Pod))
	}
	return (len(s.Containers) == 0 || slices.ContainsFunc(s.Containers, container)) && (len(s.Pods) == 0 || slices.ContainsFunc(s.Pods, pod))
}

func begins(id, pattern string) bool { return pattern != "" && strings.HasPrefix(id, pattern) }

func named(pattern, name string) bool { return name != "" && glob.Match(pattern, name) }

// SelectsGroup reports whether a cgroup is in a container or pod that is selected. The names are known of the innermost
// one only.
func (s *Selector) SelectsGroup(g Group) bool {
	if s.Empty() || s.Selects(Of(g.Path), g.Names) {
		return true
	}
	for at, c := range g.Path {
		if c == '/' && at > 0 && s.Selects(Of(g.Path[:at]), Names{}) {
			return true
		}
	}
	return false
}
