// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// builtHere returns a ksnoop that runs here.
func builtHere(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "ksnoop")
	if _, err := output(t.Context(), "..", "go", "build", "-o", program, "./cmd/ksnoop"); err != nil {
		t.Fatal(err)
	}
	return program
}

// unit returns the unit and what it sets.
func unit(t *testing.T) (data []byte, settings map[string]string) {
	t.Helper()
	data, err := os.ReadFile("ksnoop.service")
	if err != nil {
		t.Fatal(err)
	}
	settings = map[string]string{}
	for line := range strings.Lines(string(data)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(line, "#") {
			settings[key] = value
		}
	}
	return data, settings
}

// TestService: systemd takes the unit, the program takes the command line in it, and what it says of
// capabilities is what docs/safety.md has.
func TestService(t *testing.T) {
	data, settings := unit(t)
	safety, err := os.ReadFile("../docs/safety.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.FieldsSeq(settings["CapabilityBoundingSet"]) {
		if !strings.Contains(string(safety), name) || name == "CAP_SYS_ADMIN" {
			t.Errorf("the service has %s", name)
		}
	}
	words := strings.Fields(settings["ExecStart"])
	if len(words) != 4 || words[0] != "ksnoop" {
		t.Fatalf("ExecStart=%s", settings["ExecStart"])
	}
	program := builtHere(t)
	words[3] = "agent.yaml"
	if out, err := exec.Command(program, append(words[1:], "--check")...).CombinedOutput(); err != nil || !strings.Contains(string(out), "agent.yaml: 2 requests\n") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	copied := filepath.Join(t.TempDir(), "ksnoop.service")
	there := strings.Replace(string(data), "ExecStart=ksnoop", "ExecStart="+program, 1)
	there = strings.Replace(there, "Documentation=man:ksnoop-agent(1)\n", "", 1) // the page is not installed
	if err := os.WriteFile(copied, []byte(there), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("systemd-analyze", "verify", copied).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
	wrong := strings.Replace(there, "ProtectClock=yes", "ProtectClok=yes", 1)
	if err := os.WriteFile(copied, []byte(wrong), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, _ := exec.Command("systemd-analyze", "verify", copied).CombinedOutput(); !strings.Contains(string(out), "ProtectClok") {
		t.Errorf("systemd-analyze says nothing of a wrong setting: %s", out)
	}
}
