// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// TestLiveOTLP: what the workload did arrives, live and from a recording.
func TestLiveOTLP(t *testing.T) {
	guest.Require(t)
	var mu sync.Mutex
	came := map[string]int{} // items by path
	sink := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		raw, err := io.ReadAll(z)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		came[r.URL.Path] += items(raw, 1, 2, 2)
	}))
	defer sink.Close()
	file := filepath.Join(t.TempDir(), "recording")
	send := []string{"ip_send_skb(skb->len == 84, $duration)", "--", "workload", "udp-send", "-size", "56", "-count", "500"}
	for _, c := range []struct {
		args       []string
		path, want string
		count      int
	}{
		{append([]string{"--otlp", sink.URL, "--record", file, "--force"}, send...), "/v1/logs", "sent 500 log records in ", 500},
		{[]string{"replay", file, "--otlp", sink.URL}, "/v1/logs", "sent 500 log records in ", 500},
		{[]string{"replay", file, "--otlp", sink.URL, "--otlp-as", "spans"}, "/v1/traces", "sent 500 spans in ", 500},
		{[]string{"--otlp", sink.URL, "-e", "do_sys_openat2", "-x", "ENOENT", "--", "workload", "open", "-file", "/nope"}, "/v1/traces", "sent ", 1},
		{append([]string{"--otlp", sink.URL, "--every", "50ms", "ip_send_skb(count()[$comm])"}, send[1:]...), "/v1/metrics", "data point", 1},
	} {
		clear(came)
		stdout, stderr, status := ksnoop(t, c.args...)
		mu.Lock()
		n := came[c.path]
		mu.Unlock()
		if status != 0 && c.args[0] == "replay" || strings.Contains(stdout, "ip_send_skb") || !strings.Contains(stderr, c.want) || n < max(c.count, 1) { // more came if there was another run: see printed
			t.Errorf("%q: status %d, %d items came\n%s%s", c.args, status, n, stdout, stderr)
		}
	}
}

// items counts the messages at a path of fields.
func items(message []byte, path ...protowire.Number) (n int) {
	if len(path) == 0 {
		return 1
	}
	for len(message) > 0 {
		field, kind, size := protowire.ConsumeField(message)
		if size < 0 {
			return n
		}
		if field == path[0] && kind == protowire.BytesType {
			_, _, tag := protowire.ConsumeTag(message)
			inner, _ := protowire.ConsumeBytes(message[tag:])
			n += items(inner, path[1:]...)
		}
		message = message[size:]
	}
	return n
}
