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
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ksnoop/ksnoop/internal/vm"
)

// A livePackage has live tests.
type livePackage struct {
	ImportPath, Dir           string
	TestGoFiles, XTestGoFiles []string
	test                      vm.Test
}

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
		isLive := func(file string) bool { return strings.HasSuffix(file, "_live_test.go") }
		if slices.ContainsFunc(p.TestGoFiles, isLive) || slices.ContainsFunc(p.XTestGoFiles, isLive) {
			live = append(live, p)
		}
	}
	return live, cmd.Wait()
}

// compile makes a static test program of each package, in the folder dir.
func compile(ctx context.Context, pkgs []*livePackage, dir string) error {
	for i, p := range pkgs {
		// Packages may have the same last name, so each gets a folder.
		file := filepath.Join(dir, fmt.Sprint(i), filepath.Base(p.Dir)+".test")
		cmd := exec.CommandContext(ctx, "go", "test", "-c", "-o", file, p.ImportPath)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("compile tests of %s: %w\n%s", p.ImportPath, err, out)
		}
		var err error
		if p.test, err = vm.NewTest(file, p.Dir); err != nil {
			return err
		}
	}
	return nil
}

// guestFiles are what the packages' tests need in the guest. The module's
// testdata belongs to all of them and is put there once.
func guestFiles(ctx context.Context, pkgs []*livePackage) ([]vm.File, error) {
	files, err := vm.Programs(ctx)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, p := range pkgs {
		for _, f := range p.test.Files {
			if !seen[f.Guest] {
				seen[f.Guest] = true
				files = append(files, f)
			}
		}
	}
	return files, nil
}

func liveTests(ctx context.Context, o options, t *tally) error {
	dir, err := os.MkdirTemp("", "testrun-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	pkgs, files, err := prepare(ctx, o, dir)
	if err != nil {
		return err
	}
	var kernels []*live
	for _, name := range vm.KernelNames() {
		l, err := newLive(ctx, o, name, files)
		if err != nil {
			return err
		}
		l.tally = &tally{w: t.w}
		kernels = append(kernels, l)
	}
	// A guest runs on one thread, so the kernels' guests run side by side.
	var g errgroup.Group
	for _, l := range kernels {
		g.Go(func() error {
			defer l.close()
			for _, p := range pkgs {
				if err := l.test(ctx, p); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err = g.Wait()
	for _, l := range kernels {
		t.add(l.tally)
	}
	return err
}

// newLive prepares a guest with the kernel of that name.
func newLive(ctx context.Context, o options, name string, files []vm.File) (*live, error) {
	kernel, err := vm.FindKernel(ctx, name)
	if err != nil {
		return nil, err
	}
	modules, err := vm.TestModules(ctx, kernel)
	if err != nil {
		fmt.Fprintf(os.Stderr, "testrun: without a module: %v\n", err)
	}
	// The functions of tun are for TestLiveModule to trace.
	l := &live{guest: vm.Guest{Kernel: kernel, Modules: []string{"tun"}, Files: append(modules, files...)}, options: o}
	if o.debugInfo {
		return l, l.guest.AddDebugInfo(ctx)
	}
	return l, nil
}

func prepare(ctx context.Context, o options, dir string) ([]*livePackage, []vm.File, error) {
	pkgs, err := findLive(ctx, o.packages)
	if err != nil {
		return nil, nil, err
	}
	if err := compile(ctx, pkgs, dir); err != nil {
		return nil, nil, err
	}
	files, err := guestFiles(ctx, pkgs)
	return pkgs, files, err
}

// A live runs packages' tests in one guest, or in a new one after a crash.
type live struct {
	guest   vm.Guest
	machine *vm.Machine
	options options
	tally   *tally
}

func (l *live) close() {
	if l.machine != nil {
		l.machine.Close()
		l.machine = nil
	}
}

// run runs a test program; an error means that it did not come to its end.
func (l *live) run(ctx context.Context, p *livePackage, args []string, out io.Writer) error {
	if l.machine == nil {
		// Late, so that a guest that is not needed is not booted.
		m, err := l.guest.Start(ctx)
		if err != nil {
			return err
		}
		l.machine = m
	}
	// The program's own time-out comes first, it tells where the program hangs.
	ctx, cancel := context.WithTimeout(ctx, l.options.timeout+30*time.Second)
	defer cancel()
	args = append([]string{p.test.Program, "-test.timeout=" + l.options.timeout.String()}, args...)
	status, err := l.machine.Run(ctx, vm.Command{
		Args: args, Dir: p.test.Dir, Env: vm.TestEnv(os.Environ()), Stdout: out, Stderr: out,
	})
	switch {
	case err != nil:
		l.close()
	case status.ExitCode() != 0:
		// As the go command says it, whatever the program said before.
		_, err = fmt.Fprintf(out, "\n%v\nFAIL\n", status)
	}
	return err
}

func (l *live) test(ctx context.Context, p *livePackage) error {
	const debugInfo = "^TestLiveDebugInfo"
	pattern, skip := l.options.run, debugInfo
	if l.options.debugInfo {
		skip = "^$"
	}
	switch {
	case pattern == "" && l.options.debugInfo:
		pattern = debugInfo
	case pattern == "":
		pattern = "^TestLive"
	}
	before := l.tally.failed
	w, wait, err := toJSON(ctx, p.ImportPath, l.guest.Kernel.Name, l.tally)
	if err != nil {
		return err
	}
	err = l.run(ctx, p, []string{"-test.v=test2json", "-test.run=" + pattern, "-test.skip=" + skip}, w)
	if err != nil {
		fmt.Fprintf(w, "\n%v\nFAIL\n", err)
	}
	if waitErr := wait(); waitErr != nil {
		return waitErr
	}
	if err != nil && l.tally.failed == before {
		return err // no test was running
	}
	return ctx.Err()
}

// benchmark runs the live benchmarks on the first kernel, with the
// instruction clock.
func benchmark(ctx context.Context, o options, w io.Writer) error {
	dir, err := os.MkdirTemp("", "testrun-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	pkgs, files, err := prepare(ctx, o, dir)
	if err != nil {
		return err
	}
	kernel, err := vm.FindKernel(ctx, vm.KernelNames()[0])
	if err != nil {
		return err
	}
	l := &live{guest: vm.Guest{Kernel: kernel, Files: files, ICount: true}, options: o}
	defer l.close()
	pattern := o.run
	if pattern == "" {
		pattern = "^BenchmarkLive"
	}
	for _, p := range pkgs {
		if err := l.run(ctx, p, []string{"-test.run=^$", "-test.bench=" + pattern}, w); err != nil {
			return err
		}
	}
	return nil
}
