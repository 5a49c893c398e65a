// SPDX-License-Identifier: Apache-2.0

package find

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/livetest"
)

// TestPipeInCache: the cache is a user's, and ksnoop may run as root. What the user has put there in the place of
// debug info is not opened to find out what it is.
func TestPipeInCache(t *testing.T) {
	dir := t.TempDir()
	cached, pipe := filepath.Join(dir, "cache", someID.String(), "debuginfo"), filepath.Join(dir, "pipe")
	if err := errors.Join(os.MkdirAll(filepath.Dir(cached), 0o700), unix.Mkfifo(pipe, 0o600), os.Symlink(pipe, cached)); err != nil {
		t.Fatal(err)
	}
	opened := livetest.Opens(t, pipe)
	k := someKernel
	k.Caches = []string{"cache"}
	if found, err := Find(os.DirFS(dir), k); err == nil {
		t.Errorf("found %s", found)
	}
	if opened() {
		t.Error("it was opened")
	}
}
