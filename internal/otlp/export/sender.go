// SPDX-License-Identifier: Apache-2.0

package export

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/klauspost/compress/gzip"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ksnoop/ksnoop/internal/otlp"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

const (
	protobuf      = "application/x-protobuf"
	mostAnswer    = 64 << 10 // bytes of an answer that are read
	mostHeader    = 64 << 10
	mostReason    = 200 // bytes of what a collector says that are shown
	idleTime      = 90 * time.Second
	tooManyTaken  = 1 << 62
	partialField  = 1 // ExportTraceServiceResponse.partial_success
	rejectedField = 1 // ExportTracePartialSuccess.rejected_spans
	messageField  = 2 // ExportTracePartialSuccess.error_message, google.rpc.Status.message
)

// A sender sends batches, one after the other.
type sender struct {
	targets [signals]target
	clients [signals]*http.Client
	agent   string
	scope   []byte
	body    []byte
	packed  bytes.Buffer
	packer  *gzip.Writer

	complained bool // since the last success
	requests   uint64
	retries    uint64
}

func newSender(c *Config, version string) sender {
	s := sender{targets: c.targets, agent: "ksnoop/" + version, scope: otlp.AppendScope(nil, version)}
	s.packer, _ = gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is valid
	for i := range s.clients {
		t := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: s.targets[i].tls, ForceAttemptHTTP2: true, DisableCompression: true,
			MaxResponseHeaderBytes: mostHeader, IdleConnTimeout: idleTime}
		s.clients[i] = &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // headers with secrets stay with the host that they are for
		}}
	}
	return s
}

// send sends a batch once. again says that it may help to send it again, after the time that the
// collector asks for, if it does.
func (s *sender) send(ctx context.Context, b *batch) (o outcome, again bool, asked time.Duration) {
	t := &s.targets[b.signal]
	s.body = b.append(s.body[:0], s.scope)
	body := s.body
	if t.gzip {
		s.packed.Reset()
		s.packer.Reset(&s.packed)
		_, _ = s.packer.Write(body) // a Buffer takes all
		_ = s.packer.Close()
		body = s.packed.Bytes()
	}
	o.size, o.packed = len(s.body), len(body)
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	s.requests++
	answer, err := s.post(ctx, b.signal, body)
	if err != nil {
		o.reason = shown(t.url) + ": " + failed(err, t.timeout)
		return o, true, 0
	}
	switch code := answer.status; {
	case code >= 200 && code < 300:
		s.complained = false
		o.refused, o.reason = answer.partial()
		o.refused = min(o.refused, b.count)
		o.taken = b.count - o.refused
		return o, false, 0
	case code == http.StatusTooManyRequests, code == http.StatusBadGateway, code == http.StatusServiceUnavailable, code == http.StatusGatewayTimeout:
		again = true
	default:
		o.refused = b.count
	}
	o.reason = fmt.Sprintf("%s: %d %s", shown(t.url), answer.status, http.StatusText(answer.status))
	if why := answer.failure(); why != "" {
		o.reason += ": " + why
	}
	return o, again, answer.after
}

// failed says why there is no answer.
func failed(err error, timeout time.Duration) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("no answer within %v", timeout)
	case errors.Is(err, context.Canceled):
		return "no answer by the end"
	}
	return terminal.Name(unlocated(err).Error())
}

// unlocated takes from an error the URL, which may have secrets.
func unlocated(err error) error {
	var at *url.Error
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// An answer is what a collector has answered.
type answer struct {
	status int
	proto  bool // the body is protobuf
	body   []byte
	after  time.Duration // Retry-After
}

func (s *sender) post(ctx context.Context, sig signal, body []byte) (*answer, error) {
	t := &s.targets[sig]
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", s.agent)
	for name, values := range t.headers {
		r.Header[name] = values
	}
	if host := t.headers.Get("Host"); host != "" {
		r.Host = host
	}
	r.Header.Set("Content-Type", protobuf)
	if t.gzip {
		r.Header.Set("Content-Encoding", "gzip")
	}
	resp, err := s.clients[sig].Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer))
	if err != nil {
		text = nil // the status says enough
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return &answer{resp.StatusCode, kind == protobuf, text, after(resp.Header.Get("Retry-After"), time.Now())}, nil
}

// after reads a Retry-After header.
func after(text string, now time.Time) time.Duration {
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}

// partial returns how many items a successful request was refused for, and why.
func (a *answer) partial() (refused uint64, reason string) {
	if !a.proto {
		return 0, ""
	}
	inner, _ := field(a.body, partialField)
	_, refused = field(inner, rejectedField)
	if refused > tooManyTaken { // a negative number
		refused = 0
	}
	message, _ := field(inner, messageField)
	return refused, clean(message)
}

// failure returns what a collector says of a request that has failed.
func (a *answer) failure() string {
	if a.proto {
		message, _ := field(a.body, messageField)
		return clean(message)
	}
	return clean(bytes.TrimSpace(a.body))
}

func clean(text []byte) string {
	if len(text) > mostReason {
		text = text[:mostReason]
	}
	return terminal.Name(string(text))
}

// field returns the first field of a number in a message that may be anything.
func field(message []byte, want protowire.Number) (data []byte, v uint64) {
	for len(message) > 0 {
		n, kind, size := protowire.ConsumeField(message)
		if size < 0 {
			return nil, 0
		}
		if n == want {
			_, _, tag := protowire.ConsumeTag(message)
			switch kind {
			case protowire.BytesType:
				data, _ = protowire.ConsumeBytes(message[tag:])
				return data, 0
			case protowire.VarintType:
				v, _ = protowire.ConsumeVarint(message[tag:])
				return nil, v
			}
		}
		message = message[size:]
	}
	return nil, 0
}
