// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/ksnoop/ksnoop/bpf"
)

func TestParseRate(t *testing.T) {
	for text, want := range map[string]bpf.Rate{
		"100/s": {Most: 100, Window: time.Second}, "7": {Most: 7, Window: time.Second},
		"20/m": {Most: 20, Window: time.Minute}, "1/h": {Most: 1, Window: time.Hour},
	} {
		if got, err := parseRate(text); got != want || err != nil {
			t.Errorf("%s: %+v, %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "/s", "0/s", "-1/s", "1.5/s", "10/d", "10/", "10/s/s", "99999999999/s"} {
		if got, err := parseRate(text); err == nil {
			t.Errorf("%q was taken for %+v", text, got)
		}
	}
}
