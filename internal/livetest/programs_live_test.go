// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// knownCalls returns the calls of each function that the workload knows of: what it prints of each, in
// their order.
func knownCalls(text string) map[string][]string {
	known := map[string][]string{}
	for line := range strings.Lines(text) {
		if call, ok := strings.CutPrefix(line, "call "); ok {
			name, values, _ := strings.Cut(strings.TrimSpace(call), " ")
			known[name] = append(known[name], values)
		}
	}
	return known
}

// notTraced is what the verifier of old kernels says of a program that traces another one that traces.
const notTraced = "Cannot recursively attach"

// programSpecs are what the workload prints of its calls.
var programSpecs = []string{
	"bpf:weigh(size, weight, sort, return)", "bpf:classify(key->port, key->weight, key->name, size, return)", "bpf:noted(length)", "bpf:scaled((int)$arg1, (long)$arg2)",
	"bpf:chosen(a->port, b->port, which, return->port)", "bpf:target_xdp(return)", "bpf:target_socket(return)", "bpf:target_raw(return)",
	"bpf:target_syscall(return)", "bpf:target_tracepoint(return)", "bpf:target_fentry(return)",
}

// TestLivePrograms: arguments and results of BPF programs and their subprograms are those that the
// workload knows, live and replayed.
func TestLivePrograms(t *testing.T) {
	guest.Require(t)
	guest.LoadPrograms(t)
	file := recordingFile(t)
	args := slices.Concat([]string{"trace", "--join", "--format", "json", "--record", file, "--print"}, programSpecs,
		[]string{"--", "sh", "-c", "workload call-programs >&2"})
	stdout, stderr, status := ksnoop(t, args...)
	if status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	got := map[string][]string{}
	for _, l := range calls(jsonLines(t, stdout)) {
		name, _, _ := strings.Cut(strings.TrimPrefix(l.Name, "bpf:"), "[")
		got[name] = append(got[name], valuesText(programSpecs, name, l.Values))
	}
	known := knownCalls(stderr)
	if len(known) < len(programSpecs) {
		t.Errorf("the workload has called %v", slices.Collect(maps.Keys(known)))
	}
	if strings.Contains(stderr, notTraced) {
		t.Log("not of tracing programs: ", notTraced)
		delete(known, "target_fentry")
		known["weigh"] = slices.DeleteFunc(known["weigh"], func(values string) bool { return values == "size=1 weight=0 sort=0 return=2" }) // in target_fentry
	}
	for name, want := range known {
		seen := got[name]
		if name == "weigh" { // struct_ops call it, too, as often as TCP wants
			seen = slices.DeleteFunc(seen, func(values string) bool { return !slices.Contains(want, values) })
		}
		if !slices.Equal(seen, want) {
			t.Errorf("%s: traced\n%s\nwant\n%s", name, strings.Join(seen, "\n"), strings.Join(want, "\n"))
		}
	}
	again, _, status := replayed(t, file, "--join", "--format", "json")
	if again != stdout || status != 0 {
		t.Errorf("replay, status %d:\n%.5000s\ntrace:\n%.5000s", status, again, stdout)
	}
	some, _, _ := replayed(t, file, "--format", "json", "bpf:classify[target_raw](key->weight == -7)")
	if n := len(calls(jsonLines(t, some))); n != 1 {
		t.Errorf("%d calls of classify in target_raw, want 1:\n%s", n, some)
	}
}

// calls returns the lines of calls, or of one end of them.
func calls(lines []jsonLine) []jsonLine {
	return slices.DeleteFunc(slices.Clone(lines), func(l jsonLine) bool { return l.Values == nil })
}

// valuesText writes the values of a call as the workload does, in the order of the SPEC.
func valuesText(specs []string, name string, values map[string]json.RawMessage) string {
	var text []string
	for _, spec := range specs {
		items, ok := strings.CutPrefix(spec, "bpf:"+name+"(")
		if !ok {
			continue
		}
		for _, label := range strings.Split(strings.TrimSuffix(items, ")"), ", ") {
			value := string(values[label])
			var result struct {
				Name  *string
				Value json.RawMessage
			}
			if err := json.Unmarshal(values[label], &result); err == nil && result.Name != nil {
				value = *result.Name
			} else if err == nil {
				value = string(result.Value)
			}
			text = append(text, fmt.Sprintf("%s=%s", label, value))
		}
	}
	return strings.Join(text, " ")
}

// TestLiveProgramContexts: a program's context, and the kernel's structs that it describes in part, are
// the kernel's.
func TestLiveProgramContexts(t *testing.T) {
	guest.Require(t)
	guest.LoadPrograms(t)
	out, errs, status := ksnoop(t, "trace", "bpf:target_xdp((u64)ctx->data_end - (u64)ctx->data, ctx->rxq->queue_index)", "bpf:target_socket(skb->len)",
		"bpf:target_avoid(((struct sock *)ctx[0])->__sk_common.skc_family == AF_INET)", "bpf:target_tracepoint(ctx->id)",
		"bpf:queue_of(skb->len > 0, skb->queue_mapping)", "--", "sh", "-c", "workload call-programs >/dev/null")
	if status != 0 || strings.Contains(errs, "not traced: ") && !strings.Contains(errs, notTraced) {
		t.Errorf("status %d: %s", status, errs)
	}
	for name, want := range map[string]string{
		"bpf:target_xdp": ")65", "bpf:target_socket": "skb->len = (unsigned int)86", "bpf:target_avoid": ")2",
		"bpf:target_tracepoint": "ctx->id = ", "bpf:queue_of[target_freed]": "skb->queue_mapping = (__u16)0",
	} {
		bodies := bodiesOf(out, "workload", name)
		if !slices.ContainsFunc(bodies, func(b string) bool { return strings.Contains(b, want) }) {
			t.Errorf("%s: no %q in\n%s", name, want, strings.Join(bodies, "\n"))
		}
	}
}

// TestLiveProgramSessions: what a program calls is in the session of the system call that runs it.
func TestLiveProgramSessions(t *testing.T) {
	guest.Require(t)
	guest.LoadPrograms(t)
	file := recordingFile(t)
	args := []string{"trace", "-T", "-S", "-A", "-s", "none", "--format", "json", "-e", "bpf_prog_test_run_xdp", "-a", "bpf:*[target_xdp]", "-d", "bpf:noted", "--record", file, "--print",
		"--", "sh", "-c", "workload call-programs >&2"}
	stdout, stderr, status := ksnoop(t, args...)
	if status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	sessions := of(jsonLines(t, stdout), "session")
	want := "bpf_prog_test_run_xdp target_xdp weigh scaled chosen classify"
	for _, s := range sessions {
		var names []string
		for _, step := range s.Trace {
			if step.Step != "exit" {
				name, _, _ := strings.Cut(strings.TrimPrefix(step.Name, "bpf:"), "[")
				names = append(names, name)
			}
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("session of %q, want %q", got, want)
		}
	}
	if len(sessions) != 3 {
		t.Errorf("%d sessions, want 3:\n%s", len(sessions), stdout)
	}
	if again, _, status := replayed(t, file, "--format", "json"); again != stdout || status != 0 {
		t.Errorf("replay, status %d:\n%.5000s\ntrace:\n%.5000s", status, again, stdout)
	}
	// A session may begin in a program, too.
	out := traced(t, "trace", "-s", "none", "-e", "bpf:target_xdp", "-a", "bpf:weigh[target_xdp]", "-S", "-T", "--", "sh", "-c", "workload call-programs >/dev/null")
	if n := strings.Count(out, "↔ weigh"); n != 3 {
		t.Errorf("%d calls of weigh in sessions of target_xdp, want 3:\n%s", n, out)
	}
}

// TestLiveProgramFaults: what cannot be traced is refused with the reason.
func TestLiveProgramFaults(t *testing.T) {
	guest.Require(t)
	guest.LoadPrograms(t)
	for spec, want := range map[string]string{
		"bpf:wiegh":           `did you mean "weigh"?`,
		"bpf:nothing_is_such": "there are chosen, classify",
		"bpf:weigh[nothing]":  "no BPF program that could be traced is called, or has the ID, \"nothing\"",
		"bpf:weigh(sise)":     `did you mean "size"?`,
		"bpf:scaled(factor)":  "the compiler passes 2 of its 3 parameters",
		"bpf:scaled(return)":  "is read by no caller",
		"bpf:weigh(path())":   "lets nobody probe the instructions of a BPF program",
		"bpf:classify(*":      "",
	} {
		_, stderr, status := ksnoop(t, "trace", spec, "--", "true")
		if status != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %q", spec, status, stderr)
		}
	}
	other := startTrace(t, "bpf:target_socket")
	out := traced(t, "info", "bpf:*")
	if n := strings.Count(out, "it is one of ksnoop's own"); n == 0 {
		t.Errorf("programs of another ksnoop are not told:\n%s", out)
	}
	if err := other.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	other.wait(t)
}
