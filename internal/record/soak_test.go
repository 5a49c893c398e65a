// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/ksnoop/ksnoop/internal/livetest"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// TestSoak replays damaged recordings: damaged as files, which checksums tell, and with
// right checksums around blocks that are wrong.
func TestSoak(t *testing.T) {
	s := livetest.Soak{Name: "recordings", Quick: 150, Full: 5000, Memory: 512 << 20, Seeds: slices.Concat(callSeeds(t), sessionSeeds(t))}
	r, n := rand.New(rand.NewPCG(3, 4)), 0
	s.Read = func(file []byte) error {
		if n++; n%10 != 0 {
			file = resealed(t, r, s.Seeds[n%len(s.Seeds)])
		}
		reader, raw, err := read(file)
		if reader == nil {
			checkText(t, terminal.Name(err.Error()))
			return err
		}
		var out bytes.Buffer
		w := terminal.NewWriter(&out)
		printTo(t, w, reader, raw)
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		checkText(t, out.String())
		return err
	}
	s.Run(t)
}

// resealed returns a recording of which some blocks are damaged, with right checksums.
func resealed(t testing.TB, r *rand.Rand, seed []byte) []byte {
	blocks := blocksOf(t, seed)
	for range 1 + r.IntN(2) {
		i := r.IntN(len(blocks))
		blocks[i].data = string(livetest.Damaged(r, []byte(blocks[i].data), []byte(blocks[r.IntN(len(blocks))].data)))
	}
	return build(t, blocks...)
}

// checkText fails if a terminal would act on a text.
func checkText(t *testing.T, text string) {
	for i, r := range text {
		if r == utf8.RuneError && !strings.HasPrefix(text[i:], string(utf8.RuneError)) || r != '\n' && r != '\t' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			t.Errorf("%q in %.300q", r, text[max(0, i-100):])
			return
		}
	}
}
