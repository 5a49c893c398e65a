// SPDX-License-Identifier: Apache-2.0

package userfunc

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// TestHostile: whatever is wrong in a file, looking for its functions, their types and its marks ends: the time limit of go test says how soon.
func TestHostile(t *testing.T) {
	good, err := os.ReadFile(program("amd64"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "program")
	random := rand.New(rand.NewPCG(1, 2))
	opened, typed := 0, 0
	for range 1000 {
		bad := bytes.Clone(good)
		for range 1 + random.IntN(8) {
			bad[64+random.IntN(len(bad)-64)] = byte(random.Uint32())
		}
		if err := os.WriteFile(file, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := Open(file, "amd64")
		if err != nil {
			continue
		}
		opened++
		fns := f.Named("*")
		for i := range fns {
			_, _ = f.Place(&fns[i], 1)
		}
		if types, err := f.Types(fns); err == nil && len(types.Raw) > 0 {
			typed++
		}
		_, _ = f.Marks()
	}
	if opened < 500 || typed < 300 {
		t.Errorf("of 1000 damaged files %d were opened, and %d had types", opened, typed)
	}
}
