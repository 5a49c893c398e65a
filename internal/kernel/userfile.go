// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"

	"github.com/cilium/ebpf/btf"
)

// AddUserFile makes the types of a file of user space known, a blob of BTF. It returns what its
// functions have as their Module, and how to find them.
func (v *View) AddUserFile(path string, blob []byte) (module string, function func(id uint32) (*btf.Func, error), err error) {
	info, err := newTypeInfo("", blob, nil)
	if err != nil {
		return "", nil, err
	}
	v.mu.Lock()
	v.userFiles++
	info.name = userModule(v.userFiles, path)
	v.module[info.name] = func() (*typeInfo, error) { return info, nil }
	v.mu.Unlock()
	return info.name, func(id uint32) (*btf.Func, error) {
		t, err := info.byID(id)
		if err != nil {
			return nil, err
		}
		fn, ok := t.(*btf.Func)
		if !ok {
			return nil, fmt.Errorf("type %d of %s is no function", id, path)
		}
		return fn, nil
	}, nil
}
