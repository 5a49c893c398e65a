// SPDX-License-Identifier: Apache-2.0

package output

import (
	"testing"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/session"
)

// TestSessionNumbers: in sessions large numbers are hexadecimal, as with retsnoop, but
// neither times nor what is asked for in decimal.
func TestSessionNumbers(t *testing.T) {
	for item, want := range map[string]string{
		"skb->len":      "skb->len = 0x500000",
		"dec(skb->len)": "dec(skb->len) = 5242880",
		"$duration":     "$duration = 5242880",
		"exit($time)":   "exit($time) = 5242880",
	} {
		var ev event.Event
		if err := event.Decode(probe(t, "send("+item+", return < 0)"), append(bpf.AppendEvent(nil, &bpf.Event{Kind: bpf.KindCall}), data(5<<20, -1)...), &ev); err != nil {
			t.Fatal(err)
		}
		got, err := newValuePrinter(&SessionOptions{}).append(nil, &session.Values{Event: &ev}, wholeCall)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s: %q, want %q", item, got, want)
		}
	}
}
