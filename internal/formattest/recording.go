// SPDX-License-Identifier: Apache-2.0

package formattest

import (
	"bytes"
	"testing/fstest"

	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/record"
)

// Recording returns a recording of raw records, of sessions if that is not nil.
func (t *Trace) Recording(sessions *record.Sessions, raw ...[]byte) []byte {
	t.t.Helper()
	root := fstest.MapFS{"sys/kernel/btf/vmlinux": {Data: t.types}, "proc/kallsyms": {Data: t.symbols}, "proc/sys/kernel/osrelease": {Data: []byte(t.Release + "\n")}}
	source := record.Source{Root: root, View: t.view, Arch: "amd64", Writer: "test", Sessions: sessions, Origin: record.Origin{Host: "host", Boot: Boot}}
	var file bytes.Buffer
	w, err := record.NewWriter(&file, source, t.Run.Plan)
	if err != nil {
		t.t.Fatal(err)
	}
	for _, r := range raw {
		if err := w.Append(r); err != nil {
			t.t.Fatal(err)
		}
	}
	if err := w.End(event.Losses{}); err != nil {
		t.t.Fatal(err)
	}
	return file.Bytes()
}
