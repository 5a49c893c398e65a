// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"errors"
	"fmt"
	"os/user"
	"strconv"
	"syscall"
)

// A User is whom a command runs as: user, group and supplementary groups. It
// keeps the environment that it is started in.
type User struct {
	name       string
	credential syscall.Credential
}

// LookupUser finds a user by name or number. One that only has a number has no
// groups, and is not there.
func LookupUser(name string) (*User, error) {
	find := user.Lookup
	if _, err := strconv.ParseUint(name, 10, 32); err == nil {
		find = user.LookupId
	}
	u, err := find(name)
	if err != nil {
		return nil, errors.New("there is no such user")
	}
	ids, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("its groups: %w", err)
	}
	numbers := make([]uint32, 0, 2+len(ids))
	for _, id := range append([]string{u.Uid, u.Gid}, ids...) {
		n, err := strconv.ParseUint(id, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%s is no number of a user or group", id)
		}
		numbers = append(numbers, uint32(n))
	}
	return &User{u.Username, syscall.Credential{Uid: numbers[0], Gid: numbers[1], Groups: numbers[2:]}}, nil
}
