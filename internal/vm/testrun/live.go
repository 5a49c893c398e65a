// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ksnoop/ksnoop/internal/livetest"
	"github.com/ksnoop/ksnoop/internal/vm"
)

// A livePackage has live tests.
type livePackage struct {
	ImportPath, Dir           string
	TestGoFiles, XTestGoFiles []string
}

// A program is the test program of a package.
type program struct {
	*livePackage
	test vm.Test
}

// A payload is what guests of one architecture are given to test.
type payload struct {
	programs []program
	files    []vm.File
}

func isLive(file string) bool { return strings.HasSuffix(file, "_live_test.go") }

// findLive lists the packages that have live tests.
func findLive(ctx context.Context, patterns []string) ([]*livePackage, error) {
	args := append([]string{"list", "-json=ImportPath,Dir,TestGoFiles,XTestGoFiles"}, patterns...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var live []*livePackage
	for d := json.NewDecoder(out); ; {
		p := &livePackage{}
		if err := d.Decode(p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("read go list: %w", err)
		}
		if slices.ContainsFunc(p.TestGoFiles, isLive) || slices.ContainsFunc(p.XTestGoFiles, isLive) {
			live = append(live, p)
		}
	}
	return live, cmd.Wait()
}

// liveTests are the package's.
func (p *livePackage) liveTests() (names []string, err error) {
	for _, file := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
		if !isLive(file) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(p.Dir, file))
		if err != nil {
			return nil, err
		}
		names = append(names, liveTestsIn(text)...)
	}
	return names, nil
}

// compile makes a static test program of each package, in the folder dir. Without debug info, linking takes less.
func compile(ctx context.Context, pkgs []*livePackage, arch, dir string) ([]program, error) {
	programs := make([]program, len(pkgs))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.NumCPU())
	for i, p := range pkgs {
		g.Go(func() error {
			// Packages may have the same last name, so each gets a folder.
			file := filepath.Join(dir, arch, fmt.Sprint(i), filepath.Base(p.Dir)+".test")
			cmd := exec.CommandContext(ctx, "go", "test", "-c", "-trimpath", "-ldflags=-w", "-o", file, p.ImportPath)
			cmd.Env = vm.GoEnv(arch)
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("compile tests of %s: %w\n%s", p.ImportPath, err, out)
			}
			test, err := vm.NewTest(file, p.Dir)
			programs[i] = program{p, test}
			return err
		})
	}
	return programs, g.Wait()
}

// guestFiles are what the packages' tests need in the guest. The module's
// testdata belongs to all of them and is put there once.
func guestFiles(ctx context.Context, programs []program, arch string) ([]vm.File, error) {
	files, err := vm.Programs(ctx, arch)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, p := range programs {
		for _, f := range p.test.Files {
			if !seen[f.Guest] {
				seen[f.Guest] = true
				files = append(files, f)
			}
		}
	}
	return files, nil
}

// payloads builds what the kernels' guests are given, once for each architecture.
func payloads(ctx context.Context, o options, kernels []target, dir string) (map[string]*payload, error) {
	pkgs, err := findLive(ctx, o.packages)
	if err != nil {
		return nil, err
	}
	loads := map[string]*payload{}
	for _, k := range kernels {
		if loads[k.Arch] != nil {
			continue
		}
		programs, err := compile(ctx, pkgs, k.Arch, dir)
		if err != nil {
			return nil, err
		}
		files, err := guestFiles(ctx, programs, k.Arch)
		if err != nil {
			return nil, err
		}
		loads[k.Arch] = &payload{programs, files}
	}
	return loads, nil
}

// A target is a guest to test in, and how much.
type target struct {
	vm.Kernel
	smoke bool
	share share
	half  half
}

// shareOut gives each kernel with all features a share, and returns how many there are. A kernel with
// one test of each feature has as large a share of the repeats.
func shareOut(kernels []target, turn int) (whole int) {
	for _, k := range kernels {
		if !k.smoke {
			whole++
		}
	}
	n := 0
	for i := range kernels {
		switch k := &kernels[i]; {
		case !k.smoke:
			k.share = share{n, whole, turn}
			n++
		case whole > 1:
			k.share = share{i % whole, whole, turn}
		}
	}
	return whole
}

// halved gives each kernel with all features two guests, which begin first. With one for each, those of the two longest would run
// alone at the end, and a guest does not keep a CPU busy.
func halved(kernels []target) (guests []target) {
	var second, smoke []target
	for _, k := range kernels {
		if k.smoke {
			smoke = append(smoke, k)
			continue
		}
		k.half = 1
		guests = append(guests, k)
		k.half = 2
		second = append(second, k)
	}
	return slices.Concat(guests, second, smoke)
}

// findKernels fetches the kernels. Debian drops a series when it has a newer one:
// that is reported, and is no failure.
func findKernels(ctx context.Context, choices []vm.Choice, w io.Writer) ([]target, error) {
	var kernels []target
	for _, c := range choices {
		k, err := vm.FindKernel(ctx, c.Name)
		if errors.Is(err, vm.ErrNoSeries) {
			fmt.Fprintf(w, "absent %v\n", err)
			continue
		}
		if err != nil {
			return nil, err
		}
		kernels = append(kernels, target{Kernel: k, smoke: c.Smoke})
	}
	if len(kernels) == 0 {
		return nil, fmt.Errorf("no kernel to test on: Debian has none of %v", choices)
	}
	return kernels, nil
}

func liveTests(ctx context.Context, o options, t *tally) error {
	dir, err := os.MkdirTemp("", "testrun-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	kernels, err := findKernels(ctx, vm.Choices(o.kernels), t.w)
	if err != nil {
		return err
	}
	if o.share {
		turn := o.turn
		if turn < 0 {
			if turn, err = currentTurn(ctx); err != nil {
				fmt.Fprintf(t.w, "-turn=0, since git does not say which commit this is: %v\n", err)
			}
		}
		if n := shareOut(kernels, turn); n > 1 {
			fmt.Fprintf(t.w, "%d kernels share the live tests: -turn=%d shares them in the same way\n", n, turn%(n*n))
		}
	}
	loads, err := payloads(ctx, o, kernels, dir)
	if err != nil {
		return err
	}
	if (o.share || o.all) && o.run == "" {
		kernels = halved(kernels)
	}
	var guests []*live
	for _, k := range kernels {
		l, err := newLive(ctx, o, k, loads[k.Arch])
		if err != nil {
			return err
		}
		l.half, l.tally = k.half, &tally{w: t.w}
		guests = append(guests, l)
	}
	// A guest runs on one thread, so guests run side by side. Tests wait now and then, so there are two guests more than CPUs.
	var g errgroup.Group
	g.SetLimit(runtime.NumCPU() + 2)
	for _, l := range guests {
		g.Go(func() error {
			defer l.close()
			for _, p := range l.load.programs {
				if err := l.test(ctx, p); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err = g.Wait()
	for _, l := range guests {
		t.add(l.tally)
	}
	return err
}

// newLive prepares a guest with the kernel.
func newLive(ctx context.Context, o options, k target, load *payload) (*live, error) {
	modules, err := vm.TestModules(ctx, k.Kernel)
	if err != nil {
		fmt.Fprintf(os.Stderr, "testrun: kernel %s without a module for tests: %v\n", k.Name, err)
	}
	if errors.Is(err, vm.ErrNoHeaders) {
		modules = []vm.File{vm.NoModules(err)}
	}
	// The functions of tun are for TestLiveModule to trace. TestLiveWhyNetfilter inserts nf_tables: every run of why would take longer with it.
	l := &live{guest: vm.Guest{Kernel: k.Kernel, Modules: []string{"tun"}, Spare: []string{"nf_tables"}, Files: slices.Concat(modules, load.files)}, smoke: k.smoke, share: k.share, load: load, options: o}
	// Machines have page tables of four levels or of five, which gives the kernel other addresses: here newest has five, and
	// other kernels have four.
	if k.Name != "newest" {
		l.guest.Without = []string{"la57"}
	}
	if err := l.takeAlong(ctx); err != nil {
		return nil, err
	}
	if o.debugInfo {
		return l, l.guest.AddDebugInfo(ctx)
	}
	return l, nil
}

// takeAlong puts the program of -with into the guest.
func (l *live) takeAlong(ctx context.Context) error {
	if l.options.with == "" {
		return nil
	}
	files, err := vm.Installed(ctx, l.options.with)
	l.guest.Files = slices.Concat(l.guest.Files, files)
	return err
}

// A live runs packages' tests in one guest, or in a new one after a crash.
type live struct {
	guest   vm.Guest
	smoke   bool
	share   share
	half    half
	load    *payload
	machine *vm.Machine
	options options
	tally   *tally
	failed  bool // a test program ended with another status than 0
}

func (l *live) close() {
	if l.machine != nil {
		l.machine.Close()
		l.machine = nil
	}
}

// boot starts the guest unless it runs: late, so that one that is not needed is
// not booted.
func (l *live) boot(ctx context.Context) error {
	if l.machine != nil {
		return nil
	}
	m, err := l.guest.Start(ctx)
	if err != nil {
		return err
	}
	l.machine = m
	return nil
}

// run runs a test program in the guest that boot has started; an error means that it did not come to its end.
func (l *live) run(ctx context.Context, p program, args []string, out io.Writer) error {
	slow, err := slowness(ctx, l.machine)
	if err != nil {
		l.close()
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// A program that hangs is first told to say where, then stopped.
	w := newWatch(l.options.timeout, slow)
	signals := make(chan os.Signal, 1)
	go func() {
		if silent := w.wait(ctx); silent > 0 {
			signals <- syscall.SIGQUIT
			time.Sleep(time.Duration(30 * slow * float64(time.Second)))
			cancel(fmt.Errorf("no word for %v", silent.Round(time.Second)))
		}
	}()
	out = io.MultiWriter(w, out)
	env := append(vm.TestEnv(os.Environ()), fmt.Sprintf("%s=%.1f", livetest.SlowEnv, slow))
	switch {
	case l.smoke && l.options.table != "":
		env = append(env, livetest.SmokeEnv+"="+livetest.SmokeTable)
	case l.smoke:
		env = append(env, livetest.SmokeEnv+"=1")
	}
	if l.share != (share{}) {
		env = append(env, livetest.ShareEnv+"="+l.share.String())
	}
	status, err := l.machine.Run(ctx, vm.Command{
		Args: slices.Concat([]string{p.test.Program, "-test.timeout=0"}, args), Dir: p.test.Dir,
		Env:    env,
		Stdout: out, Stderr: out, Signals: signals,
	})
	switch {
	case err != nil:
		l.close()
		if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
			err = fmt.Errorf("%w: %w", cause, err)
		}
	case status.ExitCode() != 0:
		l.failed = true
		// As the go command says it, whatever the program said before.
		_, err = fmt.Fprintf(out, "\n%v\nFAIL\n", status)
	}
	return err
}

func (l *live) test(ctx context.Context, p program) error {
	const debugInfo = "^TestLiveDebugInfo"
	pattern, skip := l.options.run, debugInfo
	if l.options.debugInfo {
		skip = "^$"
	}
	tests, err := p.liveTests()
	if err != nil {
		return err
	}
	others := l.half.others(tests)
	if !l.smoke {
		others = append(others, l.share.others(tests)...)
	}
	if len(others) > 0 {
		skip += "|^(" + strings.Join(others, "|") + ")$"
	}
	left := func(name string) bool {
		return !slices.Contains(others, name) && (!l.smoke || slices.Contains(smoke[:], name))
	}
	if pattern == "" && !l.options.debugInfo && !slices.ContainsFunc(tests, left) {
		return nil // to start the program takes a second
	}
	switch {
	case pattern == "" && l.options.debugInfo:
		pattern = debugInfo
	case pattern == "" && l.smoke:
		pattern = smokePattern()
	case pattern == "":
		pattern = "^TestLive"
	}
	first := &tally{w: l.tally.w}
	defer func() { l.tally.add(first) }()
	whole, err := l.testOnce(ctx, p, pattern, skip, first)
	if err != nil {
		return err
	}
	if names := first.failedTests(); whole && len(names) > 0 && len(names) <= mostAgain {
		again := &tally{w: l.tally.w}
		whole, err := l.testOnce(ctx, p, "^("+strings.Join(names, "|")+")$", skip, again)
		if err != nil {
			return err
		}
		if whole {
			first.retry(again)
		}
	}
	return ctx.Err()
}

// mostAgain is how many tests of a package may fail and be run once more, in the same guest: a new one would lack
// the state that earlier tests left. What happens when is not the same twice in a guest that shares its
// CPUs with other work; a fault fails again. Those that pass then are reported.
const mostAgain = 2

// testOnce reports whether the program came to its end: if not, tests have not been run.
func (l *live) testOnce(ctx context.Context, p program, pattern, skip string, t *tally) (whole bool, err error) {
	bootErr := l.boot(ctx)
	if bootErr == nil {
		t.cpu = l.machine.CPUTime
	}
	w, wait, err := toJSON(ctx, p.ImportPath, l.guest.Kernel.Name, t)
	if err != nil {
		return false, err
	}
	if err = bootErr; err == nil {
		err = l.run(ctx, p, []string{"-test.v=test2json", "-test.run=" + pattern, "-test.skip=" + skip}, w)
	}
	if err != nil {
		fmt.Fprintf(w, "\n%v\nFAIL\n", err)
	}
	if waitErr := wait(); waitErr != nil {
		return false, waitErr
	}
	if err != nil && t.failed == 0 {
		return false, err // no test was running
	}
	return err == nil, ctx.Err()
}
