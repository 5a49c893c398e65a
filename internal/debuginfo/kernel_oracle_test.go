// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/ksnoop/ksnoop/internal/vm"
)

// debugPackages are the packages with the debug info of the test kernels. This
// is the one place that fetches them: 317 MB each, once, into the cache folder
// of internal/vm, about 25 seconds on a good line.
var debugPackages = map[string]string{
	"6.12": "linux-image-6.12-cloud-amd64-dbg",
	"6.1":  "linux-image-cloud-amd64-dbg",
}

// debugFile returns a file of a debug package, whose name is a pattern below
// usr/lib/debug.
func debugFile(t testing.TB, kernel, pattern string) string {
	t.Helper()
	cache, err := vm.DefaultCache()
	if err != nil {
		t.Fatal(err)
	}
	p, err := cache.Fetch(context.Background(), debugPackages[kernel])
	if err != nil {
		t.Skipf("no debug info of kernel %s: %v", kernel, err)
	}
	files, err := filepath.Glob(filepath.Join(p.Dir, "usr/lib/debug", pattern))
	if err != nil || len(files) != 1 {
		t.Fatalf("%s: %d files are called %s (%v)", p.Name, len(files), pattern, err)
	}
	return files[0]
}

func debugVmlinux(t testing.TB, kernel string) string {
	return debugFile(t, kernel, "boot/vmlinux-*")
}

// sample is how many addresses are compared: all that the issue asks for in
// the long run only, llvm-symbolizer takes its time.
func sample(all int) int {
	if os.Getenv("KSNOOP_SOAK") != "" {
		return all
	}
	return all / 20
}

func TestKernelEqualsOracle(t *testing.T) {
	for kernel := range debugPackages {
		t.Run(kernel, func(t *testing.T) {
			file := debugVmlinux(t, kernel)
			compareWithOracle(t, file, randomText(t, file, sample(10000)))
		})
	}
}
