// SPDX-License-Identifier: Apache-2.0

// Render runs the commands of the project's pages, here and in a guest, and writes into the pages what they print
// where that differs.
//
//	render [-n] [PAGE…]
//
// Read what the diff says: an output that has changed may be a fault of ksnoop.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"

	"github.com/ksnoop/ksnoop/internal/pages"
	"github.com/ksnoop/ksnoop/internal/vm"
)

func main() {
	dry := flag.Bool("n", false, "write nothing, say what differs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := render(ctx, flag.Args(), *dry)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "render: %v\n", err)
		os.Exit(1)
	}
}

// render runs the commands of the named pages, or of all.
func render(ctx context.Context, names []string, dry bool) error {
	all, err := pages.Read(os.DirFS("."))
	if err != nil {
		return err
	}
	if len(names) > 0 {
		all = slices.DeleteFunc(all, func(p *pages.Page) bool { return !slices.Contains(names, p.Name) })
	}
	results := map[*pages.Page][]pages.Result{}
	each := func(p *pages.Page) func(pages.Result) {
		return func(r pages.Result) {
			results[p] = append(results[p], r)
			if diff := r.Differs(); diff != "" {
				fmt.Printf("%s: %s\n%s\n", p.Name, r.Command.Text, diff)
			}
		}
	}
	if err := here(ctx, all, each); err != nil {
		return err
	}
	if err := inGuest(ctx, all, each); err != nil {
		return err
	}
	for p, of := range results {
		if dry {
			continue
		}
		if err := os.WriteFile(p.Name, []byte(p.Updated(of)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// here runs what runs anywhere.
func here(ctx context.Context, all []*pages.Page, each func(*pages.Page) func(pages.Result)) error {
	dir, err := os.MkdirTemp("", "ksnoop-pages-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program, err := vm.Build(ctx, runtime.GOARCH, "cmd/ksnoop")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "ksnoop"), program.Data, 0o755); err != nil {
		return err
	}
	env := append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	for _, p := range all {
		work := filepath.Join(dir, "work", p.Name)
		if err := os.CopyFS(filepath.Join(work, "testdata"), os.DirFS("testdata")); err != nil {
			return err
		}
		if err := p.Run(false, pages.In(ctx, work, env, pages.Patience), each(p)); err != nil {
			return err
		}
	}
	return nil
}

// inGuest boots one guest for all pages.
func inGuest(ctx context.Context, all []*pages.Page, each func(*pages.Page) func(pages.Result)) error {
	kernel, err := vm.FindKernel(ctx, pages.Kernel)
	if err != nil {
		return err
	}
	files, err := vm.Programs(ctx, kernel.Arch)
	if err != nil {
		return err
	}
	m, err := vm.Guest{Kernel: kernel, Files: append(files, vm.File{Guest: "/testdata", Host: "testdata"})}.Start(ctx)
	if err != nil {
		return err
	}
	defer m.Close()
	for _, p := range all {
		dir := "/tmp/" + filepath.Base(p.Name)
		sh := func(command string) (string, error) {
			var out bytes.Buffer
			_, err := m.Run(ctx, vm.Command{Args: []string{"timeout", "-s", "INT", "60", "sh", "-c", "mkdir -p " + dir + "; cd " + dir + "; ln -sf /testdata; exec 2>&1; " + command}, Stdout: &out, Stderr: &out})
			return out.String(), err
		}
		if err := p.Run(true, sh, each(p)); err != nil {
			return err
		}
	}
	return nil
}
