// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"errors"
	"fmt"
	"math"
	"os/user"
	"strconv"
	"strings"
	"syscall"
)

// A User is whom a command runs as: user, group and supplementary groups. It
// keeps the environment that it is started in.
type User struct {
	name       string
	credential syscall.Credential
}

// LookupUser finds a user by NAME, or by NUMBER, and optionally GROUP, as USER:GROUP. A
// number need not be listed in /etc/passwd: without a group, its group has the same number.
// With a group, or if the number is not listed, there are no supplementary groups.
func LookupUser(text string) (*User, error) {
	name, group, grouped := strings.Cut(text, ":")
	find := user.Lookup
	number, numeric := id(name)
	if numeric {
		find = user.LookupId
	}
	u, err := find(name)
	switch {
	case err != nil && !numeric:
		return nil, errors.New("there is no such user")
	case grouped:
		as := &User{name: text, credential: syscall.Credential{Uid: number}}
		if err == nil {
			as.credential.Uid, _ = id(u.Uid)
		}
		as.credential.Gid, err = lookupGroup(group)
		return as, err
	case err != nil:
		return &User{text, syscall.Credential{Uid: number, Gid: number}}, nil
	}
	groups, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("its groups: %w", err)
	}
	numbers := make([]uint32, 0, 2+len(groups))
	for _, text := range append([]string{u.Uid, u.Gid}, groups...) {
		n, ok := id(text)
		if !ok {
			return nil, fmt.Errorf("%s is no number of a user or group", text)
		}
		numbers = append(numbers, n)
	}
	return &User{u.Username, syscall.Credential{Uid: numbers[0], Gid: numbers[1], Groups: numbers[2:]}}, nil
}

// lookupGroup finds a group by name or number, which need not be listed.
func lookupGroup(name string) (uint32, error) {
	if n, ok := id(name); ok {
		return n, nil
	}
	g, err := user.LookupGroup(name)
	if err != nil {
		return 0, errors.New("there is no such group")
	}
	n, ok := id(g.Gid)
	if !ok {
		return 0, fmt.Errorf("%s is no number of a group", g.Gid)
	}
	return n, nil
}

// id reads the number of a user or group; the last one there could be stands for none.
func id(text string) (uint32, bool) {
	n, err := strconv.ParseUint(text, 10, 32)
	return uint32(n), err == nil && n != math.MaxUint32
}
