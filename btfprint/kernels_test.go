// SPDX-License-Identifier: Apache-2.0

package btfprint

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/cilium/ebpf/btf"
	"github.com/klauspost/compress/zstd"

	"github.com/ksnoop/ksnoop/internal/vm"
)

// ownBTF is that of the kernel that the tests run on.
const ownBTF = "/sys/kernel/btf/vmlinux"

// kernelBTF returns files with the BTF of the kernels to test with: the guests'
// if they can be had, else the running one's. KSNOOP_BTF names others.
func kernelBTF(tb testing.TB) []string {
	tb.Helper()
	if list := os.Getenv("KSNOOP_BTF"); list != "" {
		return filepath.SplitList(list)
	}
	files, err := guestBTF()
	if err == nil {
		return files
	}
	if _, statErr := os.Stat(ownBTF); statErr != nil {
		tb.Skipf("no BTF of a guest's kernel (%v), nor of this one (%v)", err, statErr)
	}
	tb.Logf("with the running kernel's BTF instead of the guests': %v", err)
	return []string{ownBTF}
}

// guestBTF is the BTF of the kernels that guests boot, taken out of their
// images once and kept beside them.
var guestBTF = sync.OnceValues(func() ([]string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(cache, "ksnoop", "btf")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	var files []string
	for _, c := range vm.Choices(vm.TestKernels) {
		if c.Smoke {
			continue
		}
		k, err := vm.FindKernel(context.Background(), c.Name)
		if errors.Is(err, vm.ErrNoSeries) || err == nil && k.Arch != "amd64" {
			continue // an image of arm64 is no ELF file
		}
		if err != nil {
			return nil, err
		}
		file := filepath.Join(dir, k.Release+".btf")
		if _, err := os.Stat(file); err != nil {
			if err := extractBTF(k.Vmlinuz, file); err != nil {
				return nil, fmt.Errorf("BTF of %s: %w", k.Vmlinuz, err)
			}
		}
		files = append(files, file)
	}
	return files, nil
})

// extractBTF unpacks a kernel image and copies its section .BTF to a file.
func extractBTF(vmlinuz, file string) error {
	image, err := os.ReadFile(vmlinuz)
	if err != nil {
		return err
	}
	vmlinux, err := unpackImage(image)
	if err != nil {
		return err
	}
	f, err := elf.NewFile(bytes.NewReader(vmlinux))
	if err != nil {
		return err
	}
	section := f.Section(".BTF")
	if section == nil {
		return errors.New("no section .BTF")
	}
	raw, err := section.Data()
	if err != nil {
		return err
	}
	tmp := fmt.Sprintf("%s.%d", file, os.Getpid())
	if err := os.WriteFile(tmp, raw, 0o666); err != nil {
		return err
	}
	return os.Rename(tmp, file)
}

// unpackImage returns the ELF file inside a bzImage. The boot protocol says
// where its payload lies (Documentation/arch/x86/boot.rst).
func unpackImage(image []byte) ([]byte, error) {
	const setupSectors, payloadOffset, payloadLength, header = 0x1f1, 0x248, 0x24c, 0x250
	if len(image) < header || string(image[0x202:0x206]) < "\x08" {
		return nil, errors.New("not a bzImage")
	}
	le := binary.LittleEndian
	start := (int(image[setupSectors])+1)*512 + int(le.Uint32(image[payloadOffset:]))
	end := start + int(le.Uint32(image[payloadLength:]))
	if end > len(image) {
		return nil, io.ErrUnexpectedEOF
	}
	payload := image[start:end]
	switch {
	case bytes.HasPrefix(payload, []byte("\xfd7zXZ\x00")):
		// The payload ends with its unpacked size, which is not part of the xz file.
		cmd := exec.Command("xz", "--decompress", "--stdout", "--single-stream")
		cmd.Stdin = bytes.NewReader(payload)
		return cmd.Output()
	case bytes.HasPrefix(payload, []byte("\x28\xb5\x2f\xfd")):
		d, err := zstd.NewReader(nil)
		if err != nil {
			return nil, err
		}
		defer d.Close()
		return d.DecodeAll(payload[:len(payload)-4], nil)
	case bytes.HasPrefix(payload, []byte("\x02\x21\x4c\x18")):
		return unpackLZ4(payload[4 : len(payload)-4])
	}
	return nil, fmt.Errorf("payload packed in an unknown way: % x", payload[:6])
}

// unpackLZ4 decodes blocks of lz4's old format, each with its size before it.
func unpackLZ4(in []byte) ([]byte, error) {
	var out []byte
	for len(in) >= 4 {
		size := int(binary.LittleEndian.Uint32(in))
		if in = in[4:]; size > len(in) {
			return nil, io.ErrUnexpectedEOF
		}
		var err error
		if out, err = unpackLZ4Block(out, in[:size]); err != nil {
			return nil, err
		}
		in = in[size:]
	}
	return out, nil
}

// unpackLZ4Block decodes sequences of literals and of matches with what was
// written before.
func unpackLZ4Block(out, in []byte) ([]byte, error) {
	base := len(out)
	next := func() byte {
		if len(in) == 0 {
			return 0
		}
		c := in[0]
		in = in[1:]
		return c
	}
	length := func(n int) int {
		if n < 15 {
			return n
		}
		for {
			c := next()
			if n += int(c); c != 255 {
				return n
			}
		}
	}
	for len(in) > 0 {
		token := next()
		literals := length(int(token >> 4))
		if literals > len(in) {
			return nil, io.ErrUnexpectedEOF
		}
		out = append(out, in[:literals]...)
		if in = in[literals:]; len(in) == 0 {
			break
		}
		offset := int(next()) | int(next())<<8
		if offset == 0 || offset > len(out)-base {
			return nil, errors.New("match before the start of its block")
		}
		for range length(int(token&15)) + 4 {
			out = append(out, out[len(out)-offset])
		}
	}
	return out, nil
}

// soak reports whether tests are to be whole, not sampled.
func soak() bool { return os.Getenv("KSNOOP_SOAK") == "1" }

// sample is the share of types that tests look at unless they are whole.
const sample = 32

// composites lists the structs and unions of 1 to 8192 bytes, or a sample.
func composites(tb testing.TB, spec *btf.Spec) []btf.TypeID {
	tb.Helper()
	var ids []btf.TypeID
	n := 0
	for t, err := range spec.All() {
		if err != nil {
			tb.Fatal(err)
		}
		switch t.(type) {
		case *btf.Struct, *btf.Union:
		default:
			continue
		}
		if size := sizeof(t); size < 1 || size > 8192 {
			continue
		}
		if n++; n%sample != 0 && !soak() {
			continue
		}
		id, err := spec.TypeID(t)
		if err != nil {
			tb.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}
