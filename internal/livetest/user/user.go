// SPDX-License-Identifier: Apache-2.0

// Package user has a program for the live tests of functions of user space.
package user

import (
	_ "embed"
	"runtime"
)

//go:generate clang -target x86_64-linux-gnu -O1 -g -fno-omit-frame-pointer -ffreestanding -nostdlib -static -fuse-ld=lld -Wall -Werror -isystem /usr/include/x86_64-linux-gnu -fdebug-prefix-map=/proc/self/cwd=. -fdebug-compilation-dir . -o testdata/user_amd64 testdata/user.c
//go:generate clang -target aarch64-linux-gnu -O1 -g -fno-omit-frame-pointer -ffreestanding -nostdlib -static -fuse-ld=lld -Wall -Werror -isystem /usr/include/x86_64-linux-gnu -fdebug-prefix-map=/proc/self/cwd=. -fdebug-compilation-dir . -o testdata/user_arm64 testdata/user.c

var (
	//go:embed testdata/user_amd64
	amd64 []byte
	//go:embed testdata/user_arm64
	arm64 []byte
)

// Program returns the program for the architecture that this one runs on.
func Program() []byte { return map[string][]byte{"amd64": amd64, "arm64": arm64}[runtime.GOARCH] }
