// SPDX-License-Identifier: Apache-2.0

package find

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

var someKernel = Kernel{Release: "6.12.117+deb12-cloud-amd64", BuildID: someID}

// elfContents say what an ELF file has.
type elfContents struct {
	notes  []byte
	debug  []byte
	nobits bool // .debug_info has been split off
	old    bool // it is called .zdebug_info
}

// elfFile writes an ELF file of this machine's byte order.
func elfFile(c elfContents) []byte {
	const headerSize, sectionSize = 64, 64
	names := "\x00.notes\x00.debug_info\x00.shstrtab\x00"
	if c.old {
		names = "\x00.notes\x00.zdebug_info\x00.shstrtab\x00"
	}
	data := elf.ELFDATA2LSB
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		data = elf.ELFDATA2MSB
	}
	body := slices.Concat(c.notes, c.debug, []byte(names))
	debugType := elf.SHT_PROGBITS
	if c.nobits {
		debugType = elf.SHT_NOBITS
	}
	off := uint64(headerSize)
	sections := []elf.Section64{{}}
	add := func(name uint32, kind elf.SectionType, size int) {
		sections = append(sections, elf.Section64{Name: name, Type: uint32(kind), Off: off, Size: uint64(size), Addralign: 4})
		off += uint64(size)
	}
	add(1, elf.SHT_NOTE, len(c.notes))
	add(8, debugType, len(c.debug))
	add(uint32(strings.Index(names, ".shstrtab")), elf.SHT_STRTAB, len(names))
	header := elf.Header64{
		Ident: [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(data), 1},
		Type:  uint16(elf.ET_REL), Machine: uint16(elf.EM_X86_64), Version: 1, Ehsize: headerSize,
		Shoff: headerSize + uint64(len(body)), Shentsize: sectionSize, Shnum: uint16(len(sections)), Shstrndx: 3,
	}
	var b bytes.Buffer
	for _, part := range []any{header, body, sections} {
		if err := binary.Write(&b, binary.NativeEndian, part); err != nil {
			panic(err) // a bytes.Buffer takes all
		}
	}
	return b.Bytes()
}

func TestFind(t *testing.T) {
	own := note("GNU\x00", ntGNUBuildID, someID)
	good := elfFile(elfContents{notes: own, debug: []byte("DWARF")})
	const boot = "usr/lib/debug/boot/vmlinux-6.12.117+deb12-cloud-amd64"
	const byID = "usr/lib/debug/.build-id/4a/5a9b0aff.debug"
	const cached = "home/me/.cache/debuginfod_client/4a5a9b0aff/debuginfo"
	const fedora = "usr/lib/debug/lib/modules/6.12.117+deb12-cloud-amd64/vmlinux"
	for _, test := range []struct {
		name string
		root fstest.MapFS
		want string
	}{
		{"fetched by debuginfod's client", fstest.MapFS{cached: {Data: good}}, cached},
		{"one", fstest.MapFS{boot: {Data: good}}, boot},
		{"the surest", fstest.MapFS{boot: {Data: good}, byID: {Data: good}}, byID},
		{"after one of another kernel", fstest.MapFS{
			boot:   {Data: elfFile(elfContents{notes: note("GNU\x00", ntGNUBuildID, []byte{1}), debug: []byte("DWARF")})},
			fedora: {Data: good}}, fedora},
	} {
		k := someKernel
		k.Caches = []string{"root/cache", "home/me/.cache/debuginfod_client"}
		if got, err := Find(test.root, k); err != nil || got != test.want {
			t.Errorf("%s: %s, %v, want %s", test.name, got, err, test.want)
		}
	}
}

func TestCheck(t *testing.T) {
	own := note("GNU\x00", ntGNUBuildID, someID)
	damaged := append(note("GNU\x00", 5, []byte{1, 2}), 1)
	for _, test := range []struct {
		name string
		data []byte
		want Why
		text string
	}{
		{"good", elfFile(elfContents{notes: own, debug: []byte("DWARF")}), 0, ""},
		{"compressed in GNU's old way", elfFile(elfContents{notes: own, debug: []byte("ZLIB"), old: true}), 0, ""},
		{"empty", nil, NotELF, "the file: no ELF file: EOF"},
		{"text", []byte("not an ELF file, but a text of some length"), NotELF, ""},
		{"cut", elfFile(elfContents{notes: own})[:70], NotELF, ""},
		{"no build ID", elfFile(elfContents{debug: []byte("DWARF")}), NoBuildID,
			"the file: has no build ID, so it is not known which kernel it belongs to"},
		{"damaged notes", elfFile(elfContents{notes: damaged, debug: []byte("DWARF")}), NoBuildID, ""},
		{"other kernel", elfFile(elfContents{notes: note("GNU\x00", ntGNUBuildID, []byte{1, 2}), debug: []byte("DWARF")}), OtherKernel,
			"the file: belongs to another kernel, build ID 0102"},
		{"stripped", elfFile(elfContents{notes: own}), NoDebugInfo, "the file: has no debug info"},
		{"split off", elfFile(elfContents{notes: own, debug: []byte("DWARF"), nobits: true}), NoDebugInfo, ""},
	} {
		err := Check(bytes.NewReader(test.data), someID)
		var refusal *Refusal
		switch {
		case test.want == 0:
			if err != nil {
				t.Errorf("%s: %v", test.name, err)
			}
		case !errors.As(err, &refusal) || refusal.Why != test.want:
			t.Errorf("%s: %v, want reason %d", test.name, err, test.want)
		case test.text != "" && err.Error() != test.text:
			t.Errorf("%s: %v, want %s", test.name, err, test.text)
		}
	}
}

// denied is a file system that lets nobody in.
type denied struct{}

func (denied) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
}

func TestAbsent(t *testing.T) {
	const stripped = "boot/vmlinux-6.12.117+deb12-cloud-amd64"
	root := fstest.MapFS{
		stripped:         {Data: elfFile(elfContents{notes: note("GNU\x00", ntGNUBuildID, someID)})},
		"etc/os-release": {Data: []byte("NAME=\"Debian GNU/Linux\"\nID=debian\n")},
		// By an empty file debuginfod's client remembers that no server has it.
		"root/.cache/debuginfod_client/4a5a9b0aff/debuginfo": {},
	}
	k := someKernel
	k.Caches = []string{"root/.cache/debuginfod_client"}
	_, err := Find(root, k)
	var absent *AbsentError
	if !errors.As(err, &absent) {
		t.Fatalf("%v, want an AbsentError", err)
	}
	const want = "no debug info of kernel 6.12.117+deb12-cloud-amd64; /boot/vmlinux-6.12.117+deb12-cloud-amd64: has no debug info" +
		"; to get it: apt-get install linux-image-6.12.117+deb12-cloud-amd64-dbg"
	if err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
	var looked []string
	for _, r := range absent.Looked {
		looked = append(looked, r.Path)
		if wantWhy := Missing; r.Why != wantWhy && r.Path != stripped {
			t.Errorf("%s: reason %d", r.Path, r.Why)
		}
	}
	if diff := cmp.Diff(k.candidates(), looked); diff != "" {
		t.Error(diff)
	}
	_, err = Find(denied{}, someKernel)
	if !errors.As(err, &absent) || absent.Looked[0].Why != Unreadable || !errors.Is(absent.Looked[0], fs.ErrPermission) {
		t.Errorf("%v, want a refusal that says permission denied", err)
	}
}

func TestCandidates(t *testing.T) {
	for _, path := range someKernel.candidates() {
		if !fs.ValidPath(path) {
			t.Errorf("%s is no path of an fs.FS", path)
		}
	}
	if got := (Kernel{Release: "../../etc"}).candidates(); len(got) != 0 {
		t.Errorf("paths of a release that leaves the root: %v", got)
	}
}

func TestCacheFolders(t *testing.T) {
	for _, test := range []struct{ environ, want string }{
		{"", ""},
		{"HOME=/root", "root/.cache/debuginfod_client"},
		{"HOME=/root SUDO_USER=me", "root/.cache/debuginfod_client home/me/.cache/debuginfod_client"},
		{"HOME=/home/me SUDO_USER=me XDG_CACHE_HOME=/home/me/.cache", "home/me/.cache/debuginfod_client"},
		{"DEBUGINFOD_CACHE_PATH=/var/debug XDG_CACHE_HOME=relative HOME=/", "var/debug .cache/debuginfod_client"},
		{"SUDO_USER=../../etc", ""},
	} {
		environ := map[string]string{}
		for variable := range strings.FieldsSeq(test.environ) {
			name, value, _ := strings.Cut(variable, "=")
			environ[name] = value
		}
		got := strings.Join(CacheFolders(func(name string) string { return environ[name] }), " ")
		if got != test.want {
			t.Errorf("%s: %s, want %s", test.environ, got, test.want)
		}
	}
}

func TestOffer(t *testing.T) {
	for _, test := range []struct{ release, osRelease, want string }{
		{"6.1.0-56-amd64", "ID=debian\n", "linux-image-6.1.0-56-amd64-dbg"},
		{"6.12.117+deb12-cloud-arm64", "ID=debian\n", "linux-image-6.12.117+deb12-cloud-arm64-dbg"},
		{"6.12.117+deb13-arm64-16k", "ID=debian\n", "linux-image-6.12.117+deb13-arm64-16k-dbg"},
		{"6.18.44-fc-v782", "ID=debian\n", ""},
		{"6.12.0-amd64-mine", "ID=debian\n", ""},
		{"6.1.0-56-amd64", "ID_LIKE=debian\nID=raspbian\n", "linux-image-6.1.0-56-amd64-dbg"},
		{"6.8.0-31-generic", "ID=ubuntu\nID_LIKE=debian\n", "linux-image-unsigned-6.8.0-31-generic-dbgsym"},
		{"6.11.4-301.fc41.x86_64", "ID=fedora\n", "kernel-debuginfo-6.11.4-301.fc41.x86_64"},
		{"5.14.0-503.el9.aarch64+64k", "ID=rhel\n", "kernel-64k-debuginfo-5.14.0-503.el9.aarch64"},
		{"6.12.0-rc1+", "ID=fedora\n", ""},
		{"5.14.0-503.el9.x86_64", "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n", "kernel-debuginfo-5.14.0-503.el9.x86_64"},
		{"6.1.102-1.182.amzn2023.x86_64", "ID='amzn'\nID_LIKE=\"fedora\"\n", "kernel-debuginfo-6.1.102-1.182.amzn2023.x86_64"},
		{"6.4.0-150600.21-default", "ID=opensuse-leap\nID_LIKE=\"suse opensuse\"\n", "kernel-default-debuginfo"},
		{"6.11.5-arch1-1", "ID=arch\n", ""},
		{"6.11.5", "ID=unheard-of\n", ""},
		{"6.11.5", "", ""},
	} {
		root := fstest.MapFS{"usr/lib/os-release": {Data: []byte(test.osRelease)}}
		got := offer(root, Kernel{Release: test.release, BuildID: someID})
		if got.Package != test.want || test.want != "" && got.Command == "" {
			t.Errorf("%s on %q: %+v, want %s", test.release, test.osRelease, got, test.want)
		}
	}
	arch := offer(fstest.MapFS{"etc/os-release": {Data: []byte("ID=arch\n")}}, someKernel)
	if arch.Command != "debuginfod-find debuginfo 4a5a9b0aff" {
		t.Errorf("%+v", arch)
	}
}
