// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakeKernel is a kernel of which there are modules only.
func fakeKernel(t *testing.T, builtin string, files map[string]string) Kernel {
	t.Helper()
	dir := t.TempDir()
	files["modules.builtin"] = builtin
	for name, data := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return Kernel{Release: "0", Modules: dir, builtin: filepath.Join(dir, "modules.builtin")}
}

func TestModulesBuiltIn(t *testing.T) {
	k := fakeKernel(t, "kernel/drivers/virtio/virtio-pci.ko\nkernel/drivers/char/virtio_console.ko\n", map[string]string{})
	got, err := k.modules("virtio_pci", "virtio-console")
	if err != nil || len(got) != 0 {
		t.Errorf("%d modules, %v; want none", len(got), err)
	}
}

func TestModulesFaults(t *testing.T) {
	k := fakeKernel(t, "", map[string]string{"kernel/broken.ko": "no ELF file"})
	for name, want := range map[string]string{"absent": "neither built in nor in the package", "broken": "read broken.ko"} {
		if _, err := k.modules(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q in it", name, err, want)
		}
	}
}

// Without a list of what is built in, what is no file counts as built in; a module
// that is a file and broken does not.
func TestModulesWithoutList(t *testing.T) {
	k := fakeKernel(t, "", map[string]string{"kernel/broken.ko": "no ELF file"})
	k.builtin = ""
	if got, err := k.modules("absent"); err != nil || len(got) != 0 {
		t.Errorf("%d modules, %v; want none", len(got), err)
	}
	if _, err := k.modules("broken"); err == nil {
		t.Error("a broken module was taken")
	}
	k.Modules = ""
	if got, err := k.modules("absent"); err != nil || len(got) != 0 {
		t.Errorf("no modules at all: %d modules, %v; want none", len(got), err)
	}
}

// The kernels' own modules: what a module depends on comes before it.
func TestModulesOrder(t *testing.T) {
	forEachKernel(t, func(t *testing.T, k Kernel) {
		const name = "nf_conntrack_netlink" // depends on several, which depend on others
		got, err := k.modules(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) < 3 || got[len(got)-1].name != name {
			t.Fatalf("%d modules, the last is not %s", len(got), name)
		}
		seen := map[string]bool{}
		for _, m := range got {
			deps, err := moduleDepends(m.data)
			if err != nil {
				t.Fatal(err)
			}
			for _, dep := range deps {
				if !seen[dep] {
					t.Errorf("%s comes before %s", m.name, dep)
				}
			}
			seen[m.name] = true
		}
	})
}
