// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/plan"
)

// TestRedacted: a recording knows what was not captured. Its records have no room for it.
func TestRedacted(t *testing.T) {
	f := newFixture(t, 0, "vfs_read")
	spec, err := expr.Parse("ip_send_skb(skb, skb->len, skb->pkt_type == 3)")
	if err != nil {
		t.Fatal(err)
	}
	f.plan, _, err = plan.Resolve(f.source.View, []*expr.Spec{spec}, plan.Options{Arch: "amd64", Redact: []string{"skb", "*pkt*"}})
	if err != nil {
		t.Fatal(err)
	}
	raw := bpf.AppendEvent(nil, &bpf.Event{PID: 7})
	for _, word := range []uint64{0, 1234, 0} {
		raw = binary.LittleEndian.AppendUint64(raw, word)
	}
	f.raw = [][]byte{raw}
	r, back, err := read(f.bytes(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(back) != 1 || !bytes.Equal(back[0], raw) {
		t.Fatalf("%q", back)
	}
	got := text(t, r.Plan(), back)
	if want := "skb = <redacted>,\n\n        skb->len = (int)1234,\n\n        skb->pkt_type = <redacted>\n"; !strings.Contains(got, want) {
		t.Errorf("got\n%s", got)
	}
}
