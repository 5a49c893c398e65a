// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// parseBytes reads a number of bytes, as 100M.
func parseBytes(s string) (int, error) {
	digits := strings.TrimRight(s, "kKmMgG")
	n, err := strconv.ParseUint(digits, 10, 32)
	shift, ok := map[string]int{"": 0, "K": 10, "M": 20, "G": 30}[strings.ToUpper(s[len(digits):])]
	if err != nil || !ok {
		return 0, errors.New("not a size; write 512K or 4M")
	}
	return int(n << shift), nil
}

// parseSize reads a power of two of at least a page, as 4M.
func parseSize(s string) (uint32, error) {
	n, err := parseBytes(s)
	if err != nil {
		return 0, err
	}
	if page := os.Getpagesize(); n < page || n > 1<<30 || n&(n-1) != 0 {
		return 0, fmt.Errorf("the size must be a power of two from %dK to 1G", page>>10)
	}
	return uint32(n), nil
}
