// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// A Package is a Debian package, unpacked in the cache.
type Package struct {
	Name    string // may end in ":arm64"
	Version string
	Arch    string
	Dir     string // holds its files as they would lie below /
}

// A Cache fetches Debian packages and keeps them unpacked in a folder. Several
// processes may use the same folder at once.
type Cache struct {
	Dir string
	// maxAge is how long the answer to "which is the newest" is believed.
	// Debian removes a package some time after a newer one has come.
	maxAge time.Duration

	// run stands for the package tools in tests.
	run func(ctx context.Context, dir, name string, args ...string) ([]byte, error)
}

// DefaultCache is the cache below $KSNOOP_CACHE or the user's cache folder.
func DefaultCache() (*Cache, error) {
	dir := os.Getenv("KSNOOP_CACHE")
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("find cache folder: %w", err)
		}
		dir = filepath.Join(user, "ksnoop")
	}
	return &Cache{Dir: dir, maxAge: 24 * time.Hour, run: runTool}, nil
}

// Fetch returns the newest version of the package, which may end in ":arm64" for
// another architecture. When it cannot be told which is the newest, the last one
// that was fetched must do.
func (c *Cache) Fetch(ctx context.Context, name string) (Package, error) {
	all, err := c.fetch(ctx, name, func() ([]Package, error) {
		p, err := c.resolve(ctx, name)
		return []Package{p}, err
	})
	if err != nil {
		return Package{}, fmt.Errorf("fetch package %s: %w", name, err)
	}
	return all[0], nil
}

// fetch unpacks the packages that a name stands for, which resolve tells by the
// lists.
func (c *Cache) fetch(ctx context.Context, name string, resolve func() ([]Package, error)) ([]Package, error) {
	last, age, known := c.lastAnswer(name)
	if known && age < c.maxAge {
		return last, nil
	}
	all, err := c.fetchNewest(ctx, resolve)
	if err != nil {
		if known && ctx.Err() == nil {
			return last, nil
		}
		return nil, err
	}
	return all, c.remember(name, all)
}

func (c *Cache) fetchNewest(ctx context.Context, resolve func() ([]Package, error)) ([]Package, error) {
	all, err := c.resolveWith(ctx, c.maxAge, resolve)
	if err == nil {
		if err = c.unpackAll(ctx, all); err == nil {
			return all, nil
		}
	}
	if errors.Is(err, ErrNoSeries) {
		return nil, err
	}
	// The lists may be so old that they name a removed package.
	all, updateErr := c.resolveWith(ctx, 0, resolve)
	if updateErr != nil {
		return nil, errors.Join(err, updateErr)
	}
	return all, c.unpackAll(ctx, all)
}

// resolveWith calls resolve with lists that are no older than that.
func (c *Cache) resolveWith(ctx context.Context, maxAge time.Duration, resolve func() ([]Package, error)) (all []Package, err error) {
	err = c.withLists(func() (err error) {
		if err = c.updateLists(ctx, maxAge); err == nil {
			all, err = resolve()
		}
		return err
	})
	return all, err
}

func (c *Cache) unpackAll(ctx context.Context, all []Package) error {
	for i := range all {
		if err := c.unpack(ctx, &all[i]); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cache) resolve(ctx context.Context, name string) (Package, error) {
	fields, err := c.show(ctx, name)
	if err != nil {
		return Package{}, err
	}
	p := Package{Name: name, Version: fields["Version"], Arch: fields["Architecture"]}
	if p.Version == "" || p.Arch == "" {
		return Package{}, fmt.Errorf("apt-cache tells no version of %s", name)
	}
	p.Dir = filepath.Join(c.Dir, "debian", fmt.Sprintf("%s_%s_%s", fields["Package"], p.Version, p.Arch))
	return p, nil
}

// show returns the fields of the newest version's record.
func (c *Cache) show(ctx context.Context, name string) (map[string]string, error) {
	out, err := c.apt(ctx, "", "apt-cache", "show", "--no-all-versions", name)
	if err != nil {
		return nil, err
	}
	fields := map[string]string{}
	record, _, _ := strings.Cut(string(out), "\n\n")
	for line := range strings.SplitSeq(record, "\n") {
		if key, value, ok := strings.Cut(line, ": "); ok && !strings.HasPrefix(line, " ") {
			fields[key] = value
		}
	}
	return fields, nil
}

// unpack downloads the package and moves its files into place at once, so that
// a folder that exists is always whole.
func (c *Cache) unpack(ctx context.Context, p *Package) error {
	if _, err := os.Stat(p.Dir); err == nil {
		return nil
	}
	parent := filepath.Dir(p.Dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(parent, ".new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if _, err := c.apt(ctx, tmp, "apt-get", "download", p.Name+"="+p.Version); err != nil {
		return err
	}
	debs, err := filepath.Glob(filepath.Join(tmp, "*.deb"))
	if err != nil {
		return err
	}
	if len(debs) != 1 {
		return fmt.Errorf("apt-get download left %d packages", len(debs))
	}
	root := filepath.Join(tmp, "root")
	if _, err := c.run(ctx, "", "dpkg", "-x", debs[0], root); err != nil {
		return err
	}
	if err := os.Rename(root, p.Dir); err != nil {
		if _, statErr := os.Stat(p.Dir); statErr != nil {
			return err
		} // another process was first
	}
	return nil
}

func (c *Cache) answerFile(name string) string {
	return filepath.Join(c.Dir, "debian", name+".json")
}

// lastAnswer is what a name stood for when it was asked the last time.
func (c *Cache) lastAnswer(name string) (all []Package, age time.Duration, ok bool) {
	file := c.answerFile(name)
	info, err := os.Stat(file)
	if err != nil {
		return nil, 0, false
	}
	b, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(b, &all) != nil || len(all) == 0 {
		return nil, 0, false
	}
	for _, p := range all {
		if _, err := os.Stat(p.Dir); err != nil {
			return nil, 0, false
		}
	}
	return all, time.Since(info.ModTime()), true
}

func (c *Cache) remember(name string, all []Package) error {
	b, err := json.Marshal(all)
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(c.answerFile(name)), ".answer-")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(b)
	if err = errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), c.answerFile(name))
}

// runTool runs one of the package tools; its error carries what it printed.
func runTool(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}

// ErrNoSeries says that Debian has no kernel of the series, or not any more.
var ErrNoSeries = errors.New("no such kernel in Debian")
