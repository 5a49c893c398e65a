// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestCapabilityNames(t *testing.T) {
	seen := make(map[string]bool)
	for c := range numCapabilities {
		name := c.String()
		if name == "" || seen[name] {
			t.Errorf("%d has the name %q", c, name)
		}
		seen[name] = true
	}
	if got := numCapabilities.String(); !strings.HasPrefix(got, "Capability(") {
		t.Errorf("beyond the last: %q", got)
	}
	if err := numCapabilities.Probe(); err == nil {
		t.Error("an unknown capability is there")
	}
}

// TestCapabilities: the versions are those that live kernels have shown.
func TestCapabilities(t *testing.T) {
	for kernel, missing := range absent {
		series, arm64 := strings.CutSuffix(kernel, "-arm64")
		v := version{7, 3} // the newest
		if series != "newest" {
			if _, err := fmt.Sscanf(series, "%d.%d", &v.major, &v.minor); err != nil {
				t.Fatal(err)
			}
		}
		for c := range numCapabilities {
			r := &capabilities[c]
			first := r.since
			if arm64 && r.arm64 != (version{}) {
				first = r.arm64
			}
			old := v.major < first.major || v.major == first.major && v.minor < first.minor
			switch lacks := slices.Contains(missing, c); {
			case old && !lacks:
				t.Errorf("%s has %s, which takes Linux %s", kernel, c, first)
			case !old && lacks && r.needs == "":
				t.Errorf("%s has no %s, which takes no more than Linux %s", kernel, c, first)
			}
		}
	}
	for c, want := range map[Capability]string{
		CapKprobeMulti: "Linux 5.18 and CONFIG_FPROBE", CapKprobeSession: "Linux 6.10 and CONFIG_FPROBE",
		CapFsession: "Linux 7.0", CapTracingMulti: "Linux 7.3 on amd64",
	} {
		if got := c.takes("amd64"); got != want {
			t.Errorf("%s takes %s, want %s", c, got, want)
		}
	}
	if got := CapKprobeMulti.takes("arm64") + ", " + CapTracingMulti.takes("arm64"); got != "Linux 6.14 and CONFIG_FPROBE, Linux 7.3 on amd64" {
		t.Error(got)
	}
}

func TestProbe(t *testing.T) {
	var tried []Capability
	odd := errors.New("odd")
	try := func(c Capability) error {
		tried = append(tried, c)
		if c%2 == 1 {
			return odd
		}
		return nil
	}
	cs := probe(t.Context(), nil, try)
	if len(tried) != int(numCapabilities) || !slices.IsSorted(tried) {
		t.Errorf("tried %v", tried)
	}
	for c := range numCapabilities {
		if cs.Has(c) != (c%2 == 0) {
			t.Errorf("%s: %v", c, cs.lack(c))
		}
	}

	tried = nil
	cs = probe(t.Context(), []Capability{CapKprobe}, try)
	if len(tried) != 1 || tried[0] != CapKprobe {
		t.Errorf("tried %v", tried)
	}
	if !errors.Is(cs.lack(CapFentry), errNotTried) {
		t.Errorf("fentry: %v", cs.lack(CapFentry))
	}
}

func TestProbeRefused(t *testing.T) {
	refused := errors.New("operation not permitted")
	tried := 0
	cs := probe(t.Context(), nil, func(Capability) error { tried++; return refused })
	if tried != 1 || len(cs) != int(numCapabilities) || !errors.Is(cs.lack(CapFentry), refused) {
		t.Errorf("tried %d of %d, fentry: %v", tried, len(cs), cs.lack(CapFentry))
	}
}

func TestProbeCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cs := probe(ctx, nil, func(c Capability) error {
		if c == CapFentry {
			cancel()
		}
		return nil
	})
	if !cs.Has(CapFentry) || !errors.Is(cs.lack(CapFexit), context.Canceled) {
		t.Errorf("fentry %v, fexit %v", cs.lack(CapFentry), cs.lack(CapFexit))
	}
}
