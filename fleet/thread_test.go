// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// threadScript traces programs in a guest, one after another. The recording comes through the standard output.
const threadScript = `method=$1; shift
ksnoop --version >&2 || exit 1
ksnoop -v $method --otlp http://127.0.0.1:1 --record /tmp/recording -s none --parent thread -x ENOENT -e 'do_sys_openat2(ustr(filename))' 2>/tmp/said &
traced=$!
until grep -q Receiving /tmp/said; do sleep 0.2; done
for program in "$@"; do
	/threads/$program /threads/lib$program.so || exit 1
done
kill -INT $traced
wait $traced # which has sent nothing
cat /tmp/said >&2
cat /tmp/recording
`

// A publisher is a program that publishes its threads' context records, compiled of internal/threadctx/testdata.
type publisher struct {
	cc      string
	library []string // options of its library; nil: it has none
	loaded  bool     // by dlopen
}

// A machine is an architecture with the programs for it, and with the libraries of the C compiler that these want.
type machine struct {
	libraries  map[string]string // by their place in the guest
	publishers map[string]publisher
}

const cross, crossLibraries = "aarch64-linux-gnu-gcc", "/usr/aarch64-linux-gnu/lib/"

var amd64 = machine{
	map[string]string{"/lib64/ld-linux-x86-64.so.2": "/lib64/ld-linux-x86-64.so.2", "/lib/x86_64-linux-gnu/libc.so.6": "/lib/x86_64-linux-gnu/libc.so.6", "/lib/ld-musl-x86_64.so.1": "/usr/lib/x86_64-linux-musl/libc.so"},
	map[string]publisher{
		"static":     {"gcc -static-pie -Wl,--export-dynamic-symbol=otel_thread_ctx_v1", nil, false},
		"program":    {"gcc -rdynamic", nil, false},
		"descriptor": {"gcc", []string{"-mtls-dialect=gnu2"}, false},
		"loaded":     {"gcc", []string{"-mtls-dialect=gnu2"}, true},
		"dynamic":    {"gcc", []string{"-mtls-dialect=gnu"}, true},
		"lld":        {"gcc -fuse-ld=lld", []string{"-fuse-ld=lld"}, true},
		"musl":       {"musl-gcc", []string{"-mtls-dialect=gnu"}, true},
	},
}

var arm64 = machine{
	map[string]string{"/lib/ld-linux-aarch64.so.1": crossLibraries + "ld-linux-aarch64.so.1", "/lib/aarch64-linux-gnu/libc.so.6": crossLibraries + "libc.so.6"},
	map[string]publisher{
		"static":     {cross + " -static-pie -Wl,--export-dynamic-symbol=otel_thread_ctx_v1", nil, false},
		"program":    {cross + " -rdynamic", nil, false},
		"descriptor": {cross, []string{"-mtls-dialect=desc"}, false},
		"loaded":     {cross, []string{"-mtls-dialect=desc"}, true},
		"dynamic":    {cross, []string{"-mtls-dialect=trad"}, true},
	},
}

// files compiles the programs, and returns their names and the options of guestrun for all files.
func (m machine) files(t *testing.T) (names, args []string) {
	dir := t.TempDir()
	for guest, host := range m.libraries {
		if _, err := os.Stat(host); err == nil {
			args = append(args, "-file", host+":"+guest)
		}
	}
	for name, publisher := range m.publishers {
		if _, err := exec.LookPath(strings.Fields(publisher.cc)[0]); err != nil {
			t.Logf("without %s: %v", name, err)
			continue
		}
		for _, file := range publisher.compile(t, dir, name) {
			args = append(args, "-file", file)
		}
		names = append(names, name)
	}
	return names, args
}

// compile compiles a program and its library, and returns what goes into the guest.
func (p publisher) compile(t *testing.T, dir, name string) (files []string) {
	t.Helper()
	const sources = "../internal/threadctx/testdata/"
	program, library := filepath.Join(dir, name), filepath.Join(dir, "lib"+name+".so")
	command := append(strings.Fields(p.cc), "-O2", "-pthread", "-o", program, sources+"main.c")
	files = []string{program + ":/threads/" + name}
	if p.library == nil {
		command = append(command, sources+"publish.c")
	} else {
		run(t, append([]string{strings.Fields(p.cc)[0], "-O2", "-fPIC", "-shared", "-Wl,-soname,lib" + name + ".so", "-o", library, sources + "publish.c"}, p.library...)...)
		files = append(files, library+":/threads/lib"+name+".so")
		if p.loaded {
			command = append(command, "-DLOADED", "-ldl")
		} else {
			command = append(command, library, "-Wl,-rpath,/threads")
		}
	}
	run(t, command...)
	return files
}

func run(t *testing.T, command ...string) string {
	t.Helper()
	out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v\n%s", command, err, out)
	}
	return string(out)
}

// TestThread: programs that publish their spans as OTEP 4947 says have their sessions in these, by each way in which
// a program reaches its thread-local variable.
func TestThread(t *testing.T) {
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		t.Skip("there is no QEMU: ", err)
	}
	p := build(t)
	script := filepath.Join(t.TempDir(), "threads.sh")
	if err := os.WriteFile(script, []byte(threadScript), 0o600); err != nil {
		t.Fatal(err)
	}
	for kernel, c := range map[string]struct {
		machine
		method string
	}{"6.12": {amd64, "--attach=auto"}, "newest": {amd64, "--attach=session"}, "newest-arm64": {arm64, "--attach=auto"}} {
		t.Run(kernel, func(t *testing.T) {
			names, files := c.files(t)
			if len(names) == 0 {
				t.Skip("there is no compiler")
			}
			args := append([]string{"run", "./internal/vm/guestrun", "-cpus", "2", "-kernel", kernel, "-file", script + ":/threads.sh"}, files...)
			var errs bytes.Buffer
			guest := exec.Command("go", append(append(args, "sh", "/threads.sh", c.method), names...)...)
			guest.Dir, guest.Stderr = "..", &errs
			recorded, err := guest.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, &errs)
			}
			t.Logf("%s", &errs)
			exported := map[string][]item{}
			parse(t, p.traces(t, recorded), exported)
			checkThreads(t, exported["spans"], names)
		})
	}
}

// checkThreads compares what ksnoop has exported with the names of files, which have the spans that the threads were in.
func checkThreads(t *testing.T, spans []item, names []string) {
	t.Helper()
	const threads, sampled = 2, 500 // as in main.c
	path := regexp.MustCompile(`/absent/([0-9a-f]+)-([0-9a-f]+)-(\d)`)
	inside, outside := map[string]int{}, map[string]int{}
	for _, s := range spans {
		m := path.FindStringSubmatch(fmt.Sprint(s["attributes"]))
		if m == nil || m[1] == "9" { // what warms up
			continue
		}
		name := s.attribute("thread.name")
		trace, span := swapped(m[1]), swapped(m[2])
		parent, _ := s["parentSpanId"].(string)
		switch wanted := m[2] != "0" && m[3] == "1"; {
		case parent == "" && !wanted:
			outside[name]++
		case parent == span && s["traceId"] == strings.Repeat("0", 16)+trace && wanted:
			inside[name]++
		default:
			t.Errorf("%s: %s is in %v of %v", name, m[0], parent, s["traceId"])
		}
	}
	t.Logf("in their spans: %v; in none: %v", inside, outside)
	for _, name := range names {
		if inside[name] != threads*sampled || outside[name] != 2*threads {
			t.Errorf("%s: %d in their spans, and %d in none", name, inside[name], outside[name])
		}
	}
}

// swapped returns a number as its bytes are in memory.
func swapped(number string) string {
	var text strings.Builder
	for whole := fmt.Sprintf("%016s", number); whole != ""; whole = whole[:len(whole)-2] {
		text.WriteString(whole[len(whole)-2:])
	}
	return text.String()
}
