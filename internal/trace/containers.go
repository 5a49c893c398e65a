// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/container"
)

// A Selection has the calls traced that containers make, also those that start later. The kernel knows no containers:
// it compares the cgroups of tasks with those that a Selection finds, again and again.
type Selection struct {
	In      container.Selector
	Cgroups *Cgroups
	Log     *slog.Logger

	known map[uint64]bool // what the engine has
	full  bool            // more were found than the engine takes, and that was said
}

// follow tells the engine of the cgroups of what is selected, until ctx ends. The first search is done when it
// returns.
func (s Selection) follow(ctx context.Context, tell func([]bpf.Cgroup) error) error {
	found, others := s.find()
	if err := s.tell(found, tell); err != nil {
		return err
	}
	if len(found) == 0 {
		s.Log.Warn("--container and --pod match no container that runs now" + listed(others) + "; those that start later are traced if they match")
	}
	go repeat(ctx, func() error {
		found, _ := s.find()
		err := s.tell(found, tell)
		if err != nil {
			s.Log.Error(err.Error())
		}
		return err
	})
	return nil
}

// tell hands what was found to the engine if that is new.
func (s *Selection) tell(found []place, tell func([]bpf.Cgroup) error) error {
	now := map[uint64]bool{}
	list := make([]bpf.Cgroup, 0, len(found))
	changed := len(found) != len(s.known)
	for _, p := range found {
		now[p.ID] = true
		list = append(list, p.Cgroup)
		if !s.known[p.ID] {
			changed = true
			s.Log.Info("traced: " + p.group.Path)
		}
	}
	if !changed {
		return nil
	}
	s.known = now
	if len(list) > bpf.MaxCgroups && !s.full {
		s.full = true
		s.Log.Warn(fmt.Sprintf("%d control groups of containers are selected, and %d can be traced at a time", len(list), bpf.MaxCgroups))
	}
	return tell(list)
}

// listed names a few containers that there are.
func listed(names []string) string {
	const most = 8
	slices.Sort(names)
	names = slices.Compact(names)
	switch n := len(names); {
	case n == 0:
		return ": there is none"
	case n > most:
		return fmt.Sprintf(": there are %s and %d more", strings.Join(names[:most], ", "), n-most)
	}
	return ": there are " + strings.Join(names, ", ")
}

// A place is a cgroup in the hierarchy.
type place struct {
	bpf.Cgroup
	group container.Group
}

// find returns the outermost cgroups of what is selected, and the names of other containers. What is below a cgroup is
// not looked at: the engine compares with all that are above a task's.
func (s *Selection) find() (found []place, others []string) {
	eachCgroup(s.Cgroups.mount, func(path string, inode uint64) (below bool) {
		g := container.Group{Path: s.Cgroups.below(path)}
		id := container.Of(g.Path)
		if id == (container.ID{}) {
			return true
		}
		g.Names = s.Cgroups.names(id)
		if s.In.Selects(id, g.Names) {
			found = append(found, place{bpf.Cgroup{ID: inode, Level: uint32(strings.Count(g.Path, "/"))}, g})
			return false
		}
		if text := g.ContainerText(); text != "" {
			others = append(others, text)
		}
		return true
	})
	return found, others
}
