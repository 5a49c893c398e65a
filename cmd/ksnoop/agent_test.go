// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/agent"
	"github.com/ksnoop/ksnoop/internal/agentconfig"
	"github.com/ksnoop/ksnoop/internal/livetest"
)

// written writes a configuration.
func written(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "agent.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestAgentFile: requests are refused that trace would refuse, and those that an agent cannot run.
func TestAgentFile(t *testing.T) {
	for _, c := range []struct{ requests, want string }{
		{"  a: {specs: [vfs_read], otlp: 'http://localhost:4318', rate: 100/s, pid: [1, 2], stack: true, every: 5s}", ""},
		{"  a: {entry: do_sys_openat2, only-errors: [EACCES], record: /var/x, rotate: 10M, keep: 2}", ""},
		{"  a: {preset: fs, trace: true, output: /var/x, force: true, format: json, cgroup: /not/there/yet}", ""},
		{"  a: {specs: [vfs_read]}", "2:3: request a: it has no output: give otlp, record or output"},
		{"  a: {otlp: 'http://localhost:4318'}", "2:3: request a: no specs are given, and no entry or preset"},
		{"  a: {specs: [vfs_read], record: /x}", "2:26: request a: --record makes one new file, and a request that is begun again needs another: add rotate and keep, or force to replace it"},
		{"  a: {specs: [vfs_read], record: /x, flight: 1M}", "2:26: request a: --record makes one new file, and a request that is begun again needs another: add rotate and keep, or force to replace it"},
		{"  a: {specs: [vfs_read], record: /x, flight: 1M, rotate: 1M}", ""},
		{"  a: {specs: [vfs_read], record: /x, flight: 1M, force: true}", ""},
		{"  a: {specs: [vfs_read], output: /x}", "2:26: request a: --output makes one new file, and a request that is begun again finds it there: add force to replace it"},
		{"  a: {specs: [vfs_read], record: /x, rotate: 1}", "2:38: request a: --rotate 1: give a size from 1M to 1024G, as 100M"},
		{"  a: {specs: [vfs_read], record: /x, rotate: 9M}\n  b: {specs: [vfs_read], record: //x/, rotate: 9M}", "3:3: request b: request a writes to /x, too"},
		{"  a: {specs: ['@list'], output: /x, force: true}", "2:3: request a: @list: lists of SPECs in other files are not read, since a reload could not tell whether they changed"},
		{"  a: {specs: [-p], output: /x, force: true}", "2:3: request a: -p is no SPEC; options are keys of the request"},
		{"  a: {specs: [vfs_read], output: /x, force: true, dry-run: true}", "2:51: a request has no dry-run: a request traces; ksnoop agent --check says what is wrong with it"},
		{"  a: {specs: [vfs_read], output: /x, force: true, config: a=b}", `2:51: there is no key "config"`},
		{"  a: {specs: [vfs_read], output: /x, force: true, case: fs}", `2:51: there is no key "case"`},
		{"  a: {specs: [vfs_read], output: /x, force: true, rate: 5/x}", "2:51: request a: --rate 5/x: not a rate; write 100/s, 20/m or 5/h"},
		{"  a: {specs: [vfs_read], output: /x, force: true, for: soon}", `2:56: --for "soon": write a time with its unit, such as 10ms, 1.5s or 5m`},
		{"  a: {specs: [vfs_read], output: /x, force: true, allow: [vfs_write]}", "2:3: request a: -a goes with -e: which functions open a session"},
		{`  a: {specs: [vfs_read], output: "/x\0y", force: true}`, `2:34: no value has a NUL (\0)`},
		{"  a: {specs: [vfs_read], output: /" + strings.Repeat("x", 70000) + ", force: true}", "2:34: a value may have 65536 bytes, and there are 70001"},
		{"  a: {specs: [vfs_read], output: /x, force: true, kubelet: 'ftp://x'}", "2:51: request a: --kubelet: the URL has the form https://127.0.0.1:10250/pods"},
		{"  a: {specs: [vfs_read], output: /x, force: true, kubelet: true}", ""},
		{"  a: {specs: [vfs_read(count ==)], output: /x, force: true}", `2:32: unexpected ")"; a value is missing after "=="`},
		{"  a: {specs: [vfs_read(count, return)], output: /x, force: true}", `2:15: "vfs_read(count" is a part of a SPEC: in a list in brackets, a SPEC with a comma stands in quotation marks: ['vfs_read(count, return)']`},
		{"  a: {specs: ['vfs_read(count, return)', vfs_write], output: /x, force: true}", ""},
		{"  a: {specs: ['vfs_read($comm == \"a(b\")', vfs_write], output: /x, force: true}", ""},
	} {
		f := agentFlags{file: written(t, "requests:\n"+c.requests+"\n")}
		_, err := f.read()
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.requests, err)
		case c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), f.file+":"+c.want) || statusOf(err) != exitUsage):
			t.Errorf("%s:\n%v, want\n%s", c.requests, err, c.want)
		}
	}
	dir := agentFlags{file: t.TempDir()}
	if _, err := dir.read(); err == nil || statusOf(err) != exitUsage {
		t.Errorf("a directory: %v", err)
	}
}

// TestAgentFaultLines: each fault of a file is a message.
func TestAgentFaultLines(t *testing.T) {
	file := written(t, "requests:\n  a: {specs: [vfs_read(count, return)], output: /x, force: 1}\n  b: {specs: [{}]}\n")
	stdout, stderr, status := ran("agent", "--check", "--config", file)
	if n := strings.Count(stderr, "\nksnoop: "+file+":"); status != exitUsage || stdout != "" || !strings.HasPrefix(stderr, "ksnoop: "+file+":2:15: ") || n != 2 || n+1 != strings.Count(stderr, "\n") {
		t.Errorf("status %d, %q, %q", status, stdout, stderr)
	}
}

// TestAgentKeys: a request takes every option of trace that --help lists, but for those that say why not; what the
// help calls repeatable may be a list.
func TestAgentKeys(t *testing.T) {
	r := newAgentRequests()().(*agentRequest)
	for name := range notInAgent {
		if name != "help" && r.lookup(name) == nil {
			t.Errorf("trace has no --%s, about which the agent says something", name)
		}
	}
	r.command.Flags().VisitAll(func(flag *pflag.Flag) {
		if flag.Hidden || notInAgent[flag.Name] != "" {
			return
		}
		k, err := r.Key(flag.Name)
		if err != nil {
			t.Errorf("%s: %v", flag.Name, err)
		}
		if repeatable := strings.HasSuffix(flag.Usage, "(repeatable)"); repeatable != k.Repeatable {
			t.Errorf("%s: a list: %v, but the help says: %s", flag.Name, k.Repeatable, flag.Usage)
		}
	})
}

// TestAgentStopsAnswering: an address is free as soon as it is no longer asked for, however short it was.
func TestAgentStopsAnswering(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "socket")
	s := service{stderr: io.Discard, supervisor: agent.New(agent.Options{})}
	for range 200 {
		for _, at := range []agentconfig.Listen{{Network: "unix", Address: socket}, {}} {
			if err := s.answer(at); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(socket); (err == nil) != (at.Address == socket) {
				t.Fatalf("%q: the socket: %v", at.Address, err)
			}
		}
	}
}

// TestAgentSocket: the socket has its mode whatever the umask is, and no other file that stands in its place gets it.
func TestAgentSocket(t *testing.T) {
	own := unix.Umask(0)
	defer unix.Umask(own)
	dir := t.TempDir()
	for i, umask := range []int{0, 0o022, 0o077} {
		unix.Umask(umask)
		socket := filepath.Join(dir, fmt.Sprint("socket", i))
		l, err := listen(agentconfig.Listen{Network: "unix", Address: socket})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if info, err := os.Stat(socket); err != nil || info.Mode() != os.ModeSocket|socketMode {
			t.Errorf("%v, %v", info, err)
		}
	}
	taken := filepath.Join(dir, "taken")
	if err := os.WriteFile(taken, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listen(agentconfig.Listen{Network: "unix", Address: taken}); err == nil || !strings.HasSuffix(err.Error(), "taken: a file is there that is no socket") {
		t.Error(err)
	}
	if text, err := os.ReadFile(taken); string(text) != "text" {
		t.Errorf("%s, %v", text, err)
	}
	file, link, linked := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "linked")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Symlink("file", link), os.Link(filepath.Join(dir, "socket0"), linked)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, link, linked} {
		if id, err := openToGroup(path); id != (fileID{}) || err == nil || !strings.Contains(err.Error(), "taken the place") {
			t.Errorf("%s: %v", path, err)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

// TestAgentSocketReplaced: a file that has taken the place of the socket is not removed.
func TestAgentSocketReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := withMode(l, path); err == nil || !strings.Contains(err.Error(), path+": another file has taken the place") {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
	_ = l.SetDeadline(time.Now()) // for Accept to return in any case
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener is not closed: %v", err)
	}
}

// TestAgentSocketOfAnother: an agent whose socket was removed leaves that of the next agent at the path, however often it
// closes its own.
func TestAgentSocketOfAnother(t *testing.T) {
	at := agentconfig.Listen{Network: "unix", Address: filepath.Join(t.TempDir(), "socket")}
	open := func() net.Listener {
		l, err := listen(at)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	first := open()
	if err := os.Remove(at.Address); err != nil {
		t.Fatal(err)
	}
	second := open()
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(at.Address); err != nil {
		t.Fatalf("the other agent's socket: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(at.Address); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its own socket: %v", err)
	}
	third := open() // which may have the inode of the second
	defer third.Close()
	_ = second.Close()
	if _, err := os.Stat(at.Address); err != nil {
		t.Errorf("closed again: %v", err)
	}
}

// TestAgentSocketNoProc covers /proc in a mount namespace of one thread, which ends with its goroutine.
func TestAgentSocketNoProc(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	prepared, listened := make(chan error, 1), make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_NEWNS)
		if err == nil {
			err = errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("none", "/proc", "tmpfs", 0, ""))
		}
		prepared <- err
		if err == nil {
			_, err = listenUnix(path)
			listened <- err
		}
	}()
	if err := <-prepared; err != nil {
		t.Skip(err)
	}
	if err := <-listened; err == nil || !strings.Contains(err.Error(), path+": ") || !strings.Contains(err.Error(), "mount proc at /proc") {
		t.Errorf("%v", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its socket is left: %v", err)
	}
}

// TestAgentAnswers: the agent answers where the last file says, also at another address of the same port. After an address that
// cannot be had, it answers where it did.
func TestAgentAnswers(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(free.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	free.Close()
	socket := filepath.Join(t.TempDir(), "socket")
	s := service{stderr: io.Discard, supervisor: agent.New(agent.Options{})}
	for _, c := range []struct {
		network, address string
		refused          bool
		answers          []string // and no other of these
	}{
		{"tcp", "127.0.0.1:" + port, false, []string{"127.0.0.1"}},
		{"tcp", "0.0.0.0:" + port, false, []string{"127.0.0.1", "127.0.0.2"}},
		{"tcp", busy.Addr().String(), true, []string{"127.0.0.1", "127.0.0.2"}},
		{"unix", "/not/there", true, []string{"127.0.0.1", "127.0.0.2"}},
		{"tcp", "127.0.0.2:" + port, false, []string{"127.0.0.2"}},
		{"unix", socket, false, nil},
		{"", "", false, nil},
	} {
		err := s.answer(agentconfig.Listen{Network: c.network, Address: c.address})
		if (err != nil) != c.refused {
			t.Errorf("%s: %v", c.address, err)
		}
		var answers []string
		for _, host := range []string{"127.0.0.1", "127.0.0.2"} {
			if r, err := http.Get("http://" + host + ":" + port + "/healthz"); err == nil {
				r.Body.Close()
				answers = append(answers, host)
			}
		}
		if fmt.Sprint(answers) != fmt.Sprint(c.answers) {
			t.Errorf("%s: it answers at %q, want %q", c.address, answers, c.answers)
		}
		_, err = os.Stat(socket)
		if (err == nil) != (c.address == socket) {
			t.Errorf("%s: the socket: %v", c.address, err)
		}
	}
}

// TestAgentEnds: a SIGTERM that comes during a reload, behind any number of hang-ups, ends the agent. A hang-up during a
// reload makes another one.
func TestAgentEnds(t *testing.T) {
	seen := make(chan os.Signal, 16)
	signal.Notify(seen, unix.SIGHUP, unix.SIGTERM)
	defer signal.Stop(seen)
	signals := takeAgentSignals()
	defer signals.giveBack()
	send := func(s unix.Signal) {
		if err := unix.Kill(os.Getpid(), s); err != nil {
			t.Fatal(err)
		}
		<-seen                 // so that the kernel does not make one of several
		signal.Notify(seen, s) // which waits until all channels have it
	}
	reloads := 0
	send(unix.SIGHUP)
	signals.reloadUntilEnd(func() {
		for range 8 {
			send(unix.SIGHUP)
		}
		switch reloads++; reloads {
		case 3:
			send(unix.SIGTERM)
		case 4:
			t.Fatal("the SIGTERM is lost")
		}
	})
	if reloads != 3 {
		t.Errorf("%d reloads", reloads)
	}
}

// TestAgentFailsUnread: an agent whose configuration is wrong, and that says so where nobody reads, is ended by SIGTERM.
func TestAgentFailsUnread(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	size, err := unix.FcntlInt(write.Fd(), unix.F_SETPIPE_SZ, 1) // a page, less than there is to say
	if err != nil {
		t.Fatal(err)
	}
	faults := strings.Repeat(strings.Repeat("x", size/10)+": 1, ", 20)
	c, _ := program(t, `exec "$0" agent --config "$1"`, written(t, "requests: {a: {"+faults+"}}\n"))
	c.Stderr = write
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	kill := time.AfterFunc(livetest.Patience(20*time.Second), func() { _ = c.Process.Kill() })
	defer kill.Stop()
	end := time.Now().Add(livetest.Patience(10 * time.Second))
	for said := 0; said < size-size/8; time.Sleep(time.Millisecond) { // then there is no room for another message
		if said, err = unix.IoctlGetInt(int(read.Fd()), unix.TIOCINQ); err != nil || time.Now().After(end) {
			t.Fatalf("it has said %d bytes, %v", said, err)
		}
	}
	_ = c.Process.Signal(unix.SIGTERM)
	_ = c.Wait()
	if status := c.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != unix.SIGTERM {
		t.Error(c.ProcessState)
	}
}

// TestAgentUnread: where nobody reads what an agent says, SIGTERM ends it all the same. That is no failure, after which systemd would
// start it again.
func TestAgentUnread(t *testing.T) {
	dir := t.TempDir()
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: filepath.Join(dir, "manager")})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	size, err := unix.FcntlInt(write.Fd(), unix.F_SETPIPE_SZ, 1) // a page
	if err == nil {
		_, err = write.Write(make([]byte, size))
	}
	if err != nil {
		t.Fatal(err)
	}
	c, _ := program(t, `exec "$0" agent --config "$1"`, written(t, "requests: {a: {specs: [no_such_function], output: "+filepath.Join(dir, "out")+", force: true}}\n"))
	c.Env, c.Stderr = append(c.Env, "NOTIFY_SOCKET="+manager.LocalAddr().String()), write
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	_ = manager.SetReadDeadline(time.Now().Add(livetest.Patience(20 * time.Second)))
	state := make([]byte, 100)
	n, err := manager.Read(state)
	if err != nil || string(state[:n]) != "READY=1" {
		t.Errorf("%q, %v", state[:n], err)
	}
	if err := errors.Join(c.Process.Signal(unix.SIGTERM), c.Wait()); err != nil {
		t.Error(err)
	}
}
