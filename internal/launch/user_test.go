// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// outputAs runs a command as a user and returns what it prints.
func outputAs(t *testing.T, as *User, args ...string) string {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	stdout := os.Stdout
	os.Stdout = file
	c, err := Start(as, args)
	os.Stdout = stdout
	if err != nil {
		t.Fatal(err)
	}
	c.Continue()
	if status, err := Status(<-c.Done()); status != 0 || err != nil {
		t.Fatalf("%q: status %d, %v", args, status, err)
	}
	text, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can run a command as somebody else")
	}
}

// TestStartAsUser: all that the kernel knows of who a process is has changed: real,
// effective, saved and filesystem IDs, groups and capabilities.
func TestStartAsUser(t *testing.T) {
	needRoot(t)
	as := &User{"somebody", syscall.Credential{Uid: 1234, Gid: 2345, Groups: []uint32{7, 2345, 3456}}}
	text := outputAs(t, as, "cat", "/proc/self/status")
	for _, want := range []string{"Uid:\t1234\t1234\t1234\t1234\n", "Gid:\t2345\t2345\t2345\t2345\n", "Groups:\t7 2345 3456 \n",
		"CapPrm:\t0000000000000000\n", "CapEff:\t0000000000000000\n", "TracerPid:\t0\n"} {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	none := &User{"nobody", syscall.Credential{Uid: 1234, Gid: 2345}}
	if text := outputAs(t, none, "cat", "/proc/self/status"); !strings.Contains(text, "\nGroups:\t \n") {
		t.Errorf("our own groups are left:\n%s", text)
	}
	if got, want := outputAs(t, nil, "id"), ids(t); got != want {
		t.Errorf("without a user: %s, want %s", got, want)
	}
}

// ids is what id(1) says of users.
func ids(t *testing.T, args ...string) string {
	t.Helper()
	text, err := exec.Command("id", args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestLookupUser(t *testing.T) {
	needRoot(t)
	for _, name := range []string{"root", "0", "nobody", "daemon", strings.TrimSpace(ids(t, "-u", "nobody"))} {
		as, err := LookupUser(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, option := range []string{"-u", "-g", "-G", "-ru", "-rg"} {
			if got, want := outputAs(t, as, "id", option), ids(t, option, name); got != want {
				t.Errorf("%s: id %s says %q, want %q", name, option, got, want)
			}
		}
	}
	// Nobody of that number is listed; who is, may have another group.
	root := strings.TrimSpace(ids(t, "-gn", "root"))
	for name, want := range map[string][3]string{"1000777": {"1000777", "1000777", "1000777"}, "1000777:1000888": {"1000777", "1000888", "1000888"},
		"1000777:" + root: {"1000777", "0", "0"}, "nobody:1000888": {strings.TrimSpace(ids(t, "-u", "nobody")), "1000888", "1000888"}} {
		as, err := LookupUser(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for i, option := range []string{"-u", "-g", "-G"} {
			if got := outputAs(t, as, "id", option); got != want[i]+"\n" {
				t.Errorf("%s: id %s says %q, want %q", name, option, got, want[i])
			}
		}
	}
	for _, name := range []string{"no-such-user", "4294967295", "99999999999", "-1", "", ":0", "0:", "0:no-such-group", "0:-1", "0:0:0"} {
		if as, err := LookupUser(name); err == nil {
			t.Errorf("%q was found to be %+v", name, as)
		}
	}
}

// TestStartAsUserFails: the user may not be allowed to run the file.
func TestStartAsUserFails(t *testing.T) {
	needRoot(t)
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	as := &User{"somebody", syscall.Credential{Uid: 1234, Gid: 2345}}
	if _, err := Start(as, []string{file}); err == nil ||
		!strings.HasPrefix(err.Error(), "starting "+file+" as somebody: ") || !strings.HasSuffix(err.Error(), "permission denied") {
		t.Errorf("error %v", err)
	}
}

// TestStartAsUserSetID: a set-user-ID bit has its effect though the command is held.
func TestStartAsUserSetID(t *testing.T) {
	needRoot(t)
	id, err := exec.LookPath("id")
	if err != nil {
		t.Skip(err)
	}
	data, err := os.ReadFile(id)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "setid")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // for somebody else
		t.Fatal(err)
	}
	file := filepath.Join(dir, "id")
	if err := os.WriteFile(file, data, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	as := &User{"somebody", syscall.Credential{Uid: 1234, Gid: 2345}}
	cmd := exec.Command(file, "-u")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &as.credential}
	want, err := cmd.Output()
	if err != nil {
		t.Skipf("somebody else cannot execute a file there: %v", err)
	}
	if string(want) != "0\n" {
		t.Skipf("set-user-ID bits have no effect here: %s", want)
	}
	if got := outputAs(t, as, file, "-u"); got != string(want) {
		t.Errorf("its user is %q, without ksnoop %q", got, want)
	}
}
