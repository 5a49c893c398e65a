// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
)

func TestFrameLayout(t *testing.T) {
	var b bytes.Buffer
	if err := NewConn(&b).Send(Stdout, []byte("a\x00b")); err != nil {
		t.Fatal(err)
	}
	if got, want := b.String(), "o\x03\x00\x00\x00a\x00b"; got != want {
		t.Errorf("frame %q, want %q", got, want)
	}
}

func TestSendReceive(t *testing.T) {
	big := bytes.Repeat([]byte("0123456789abcdef"), maxPayload/16)
	tests := []struct {
		name    string
		payload []byte
		sizes   []int
	}{
		{"nothing", nil, []int{0}},
		{"one byte", []byte{0}, []int{1}},
		{"the longest frame", big, []int{maxPayload}},
		{"more than a frame", append(big[:len(big):len(big)], "more"...), []int{maxPayload, 4}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b bytes.Buffer
			c := NewConn(&b)
			if err := c.Send(Stderr, tt.payload); err != nil {
				t.Fatal(err)
			}
			var got []byte
			for _, size := range tt.sizes {
				kind, payload, err := c.Receive()
				if err != nil || kind != Stderr || len(payload) != size {
					t.Fatalf("received %q, %d bytes, %v; want %d bytes", kind, len(payload), err, size)
				}
				got = append(got, payload...)
			}
			if !bytes.Equal(got, tt.payload) {
				t.Error("payload differs")
			}
			if _, _, err := c.Receive(); err != io.EOF {
				t.Errorf("after the last frame: %v, want EOF", err)
			}
		})
	}
}

func TestReceiveFaults(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"unknown kind", "?\x00\x00\x00\x00", "unknown kind 0x3f"},
		{"too long", "o\xff\xff\xff\xff", "too long"},
		{"short head", "o\x01", "unexpected EOF"},
		{"short payload", "o\x02\x00\x00\x00a", "unexpected EOF"},
		{"no payload", "o\x02\x00\x00\x00", "unexpected EOF"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := NewConn(bytes.NewBufferString(tt.in)).Receive()
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q in it", err, tt.want)
			}
		})
	}
}

func TestSendJSONRefusesWhatDoesNotFit(t *testing.T) {
	var b bytes.Buffer
	err := NewConn(&b).SendJSON(Start, Command{Args: []string{strings.Repeat("x", maxPayload)}})
	if err == nil || b.Len() > 0 {
		t.Errorf("error %v, %d bytes written; want an error and none", err, b.Len())
	}
}

// Frames that several goroutines send must not run into each other.
func TestSendConcurrently(t *testing.T) {
	const senders, frames = 4, 200
	r, w := io.Pipe()
	out := NewConn(struct {
		io.Reader
		io.Writer
	}{nil, w})
	var all sync.WaitGroup
	for i := range senders {
		all.Go(func() {
			payload := bytes.Repeat([]byte{byte(i)}, 100+i)
			for range frames {
				if err := out.Send(Stdout, payload); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	go func() {
		all.Wait()
		w.Close()
	}()
	in := NewConn(struct {
		io.Reader
		io.Writer
	}{r, nil})
	n := 0
	for ; ; n++ {
		_, payload, err := in.Receive()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if i := payload[0]; len(payload) != 100+int(i) || bytes.Count(payload, []byte{i}) != len(payload) {
			t.Fatalf("frame %d is mixed: % x", n, payload)
		}
	}
	if n != senders*frames {
		t.Errorf("%d frames, want %d", n, senders*frames)
	}
}

// Whatever bytes come, Receive accepts only whole frames, which sent again
// are the same bytes.
func FuzzReceive(f *testing.F) {
	f.Add([]byte("R\x00\x00\x00\x00"))
	f.Add([]byte("o\x03\x00\x00\x00abcX\x02\x00\x00\x00{}"))
	f.Add([]byte("o\xff\xff\xff\x7f"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var again bytes.Buffer
		out, c := NewConn(&again), NewConn(bytes.NewBuffer(in))
		for {
			kind, payload, err := c.Receive()
			if err != nil {
				break
			}
			if err := out.Send(kind, payload); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.HasPrefix(in, again.Bytes()) {
			t.Fatalf("frames of %q are %q", in, &again)
		}
		// What was not accepted must really be no frame.
		if rest := in[again.Len():]; len(rest) >= 5 && Kind(rest[0]).known() {
			if n := binary.LittleEndian.Uint32(rest[1:]); n <= maxPayload && len(rest) >= 5+int(n) {
				t.Fatalf("frame refused: %q", rest)
			}
		}
	})
}
