// SPDX-License-Identifier: Apache-2.0

package record

import (
	"testing"

	"github.com/ksnoop/ksnoop/layout"
)

// TestFingerprintsStay: a recording is replayed only if its probes have the layout that they were recorded with. So
// common SPECs must keep theirs, unless the records themselves change. These are as of 29 November 2026.
func TestFingerprintsStay(t *testing.T) {
	for _, tt := range []struct{ spec, kprobe, fentry string }{
		{"ip_send_skb", "53c173b3e25fc2d4", "74f9facaa69944b6"},
		{"ip_send_skb($comm, $pid, $time, return)", "d0a59d869faa44af", "5fa283a417a547ca"},
		{`ip_send_skb($comm == "cat", exit($comm))`, "0b5df6074912ca45", "faa988041f0792b5"},
		{`ip_send_skb(skb->len, skb->pkt_type, skb->name, skb->next->len > 3, skb->name ~ "eth*")`, "87edce19c7f68f07", "f7a308d58d35a1d0"},
		{"ip_send_skb(str(skb->name), buf(skb, 8), hex(skb->len), *skb)", "f86b61cdae2d09a7", "b495b5d81deacc92"},
		{"ip_send_skb(exit(skb->len), skb->len < return, diff(skb->len))", "055e2371529d7ffb", "8f5d00eb3385607c"},
		{"vfs_read(count, return < 0, $duration > 1000)", "9967ce770348a049", "291b791a3dfd42de"},
		{"vfs_read(count()[$comm], hist(return), count > 3)", "85420b9ab1a9f063", "cd9cc2dba13149e1"},
	} {
		for method, want := range map[layout.Method]string{layout.MethodKprobe: tt.kprobe, layout.MethodFentry: tt.fentry} {
			if got := fingerprint(newFixture(t, method, tt.spec).plan.Probes[0]); got != want {
				t.Errorf("%s by %s has the layout %s, want %s", tt.spec, method, got, want)
			}
		}
	}
}
