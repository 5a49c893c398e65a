// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// suites are of Debian's next release, where kernels are that the machine's own
// release does not have. They come from the machine's mirror.
var suites = [...]string{"trixie", "trixie-backports"}

// architectures are those of the guests.
var architectures = [...]string{"amd64", "arm64"}

// apt asks Debian's tools by a configuration of the cache's own: the machine's
// suites and the next release's, for all architectures of guests. Neither what is
// installed on the machine nor what its administrator has set up is touched.
//
// The mirror's address and its keyring are the machine's: they are read from its
// sources each time, and what is written for apt lies in the cache only.
func (c *Cache) apt(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	args = append([]string{"-q", "-c", filepath.Join(c.aptDir(), "apt.conf")}, args...)
	return c.run(ctx, dir, name, args...)
}

func (c *Cache) aptDir() string { return filepath.Join(c.Dir, "apt") }

// lockApt keeps other processes from the lists until it is unlocked.
func (c *Cache) lockApt() (unlock func(), err error) {
	if err := os.MkdirAll(c.aptDir(), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(c.aptDir(), "lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			f.Close()
			return nil, err
		}
		return func() { f.Close() }, nil
	}
}

// withLists calls ask, which asks by the lists, while nobody changes them.
func (c *Cache) withLists(ask func() error) error {
	unlock, err := c.lockApt()
	if err != nil {
		return err
	}
	defer unlock()
	return ask()
}

// updateLists brings the lists up to date unless they are young.
func (c *Cache) updateLists(ctx context.Context, maxAge time.Duration) error {
	stamp := filepath.Join(c.aptDir(), "updated")
	if info, err := os.Stat(stamp); err == nil && time.Since(info.ModTime()) < maxAge {
		return nil
	}
	if err := c.configureApt(ctx); err != nil {
		return fmt.Errorf("set up apt: %w", err)
	}
	if _, err := c.apt(ctx, "", "apt-get", "update"); err != nil {
		return err
	}
	return os.WriteFile(stamp, nil, 0o644)
}

// configureApt writes the configuration anew.
func (c *Cache) configureApt(ctx context.Context) error {
	origins, err := c.origins(ctx)
	if err != nil {
		return err
	}
	dir := c.aptDir()
	for _, d := range []string{"lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	conf := fmt.Sprintf(`Dir::Etc::SourceList "/dev/null";
Dir::Etc::SourceParts %[1]q;
Dir::State::Lists %[2]q;
Dir::State::Status "/dev/null";
Dir::Cache %[3]q;
APT::Architectures { "%[4]s"; };
APT::Sandbox::User "root";
Acquire::Languages "none";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
`, filepath.Join(dir, "sources"), filepath.Join(dir, "lists"), filepath.Join(dir, "cache"), strings.Join(architectures[:], `"; "`))
	if err := os.MkdirAll(filepath.Join(dir, "sources"), 0o755); err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "sources", "guests.sources"), []byte(sources(origins)), 0o644),
		os.WriteFile(filepath.Join(dir, "apt.conf"), []byte(conf), 0o644))
}

// An origin is one suite of the machine's sources.
type origin struct {
	uri, suite, label string
	signedBy          string // the field's value, "" where the machine trusts its default keys
}

// origins are the suites of Debian's main archive that the machine uses.
func (c *Cache) origins(ctx context.Context) ([]origin, error) {
	found, err := c.indexTargets(ctx)
	if err == nil && len(found) == 0 {
		// What a source holds is known from its list only, and a new machine has none.
		if _, err = c.run(ctx, "", "apt-get", "-q", "update"); err == nil {
			found, err = c.indexTargets(ctx)
		}
	}
	if err == nil && len(found) == 0 {
		err = errors.New("the machine's apt sources have no Debian archive")
	}
	return found, err
}

func (c *Cache) indexTargets(ctx context.Context) ([]origin, error) {
	const format = "$(ORIGIN)|$(COMPONENT)|$(LABEL)|$(RELEASE)|$(REPO_URI)|$(SOURCESENTRY)"
	out, err := c.run(ctx, "", "apt-get", "indextargets", "--format", format, "Created-By: Packages")
	if err != nil {
		return nil, err
	}
	var found []origin
	for line := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimSpace(line), "|")
		if len(f) != 6 || f[0] != "Debian" || f[1] != "main" {
			continue
		}
		o := origin{label: f[2], suite: f[3], uri: f[4]}
		if slices.ContainsFunc(found, func(x origin) bool { return x.uri == o.uri && x.suite == o.suite }) {
			continue // another architecture's list
		}
		file, _, _ := strings.Cut(f[5], ":")
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		o.signedBy = signedBy(string(text), o.uri)
		found = append(found, o)
	}
	return found, nil
}

// signedBy finds the keyring of an archive in a file of apt's sources, of either
// form. A field may go on in further lines, which then hold the key itself.
func signedBy(text, uri string) string {
	is := func(word string) bool { return strings.TrimSuffix(word, "/") == strings.TrimSuffix(uri, "/") }
	for stanza := range strings.SplitSeq(text, "\n\n") {
		fields, key := map[string]string{}, ""
		for line := range strings.Lines(stanza) {
			line = strings.TrimRight(line, "\n")
			if at, keyring, ok := sourceLine(line); ok {
				if is(at) {
					return keyring
				}
				continue
			}
			switch name, value, ok := strings.Cut(line, ":"); {
			case strings.HasPrefix(line, "#"):
			case strings.HasPrefix(line, " "), strings.HasPrefix(line, "\t"):
				fields[key] += "\n" + line
			case ok:
				key = strings.ToLower(name)
				fields[key] = strings.TrimSpace(value)
			}
		}
		if slices.ContainsFunc(strings.Fields(fields["uris"]), is) {
			return fields["signed-by"]
		}
	}
	return ""
}

// sourceLine reads a source of the one-line form, "deb [signed-by=/keys.gpg] URI
// SUITE main"; ok is false for any other line.
func sourceLine(line string) (uri, keyring string, ok bool) {
	words := strings.Fields(line)
	if len(words) == 0 || words[0] != "deb" {
		return "", "", false
	}
	rest := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "deb"))
	if options, after, found := strings.Cut(rest, "]"); found && strings.HasPrefix(rest, "[") {
		for option := range strings.FieldsSeq(options[1:]) {
			if v, found := strings.CutPrefix(option, "signed-by="); found {
				keyring = v
			}
		}
		rest = after
	}
	if words = strings.Fields(rest); len(words) == 0 {
		return "", "", false
	}
	return words[0], keyring, true
}

// sources are apt's sources for the suites of the machine and of the next release.
func sources(origins []origin) string {
	all := slices.Clone(origins)
	for _, suite := range suites {
		for _, o := range origins {
			// Security updates and the like lie in other archives, or in other suites of this one.
			if o.label == "Debian" && !strings.Contains(o.suite, "-") {
				o.suite = suite
				all = append(all, o)
				break
			}
		}
	}
	var b strings.Builder
	for i, o := range all {
		if slices.ContainsFunc(all[:i], func(x origin) bool { return x.uri == o.uri && x.suite == o.suite }) {
			continue
		}
		fmt.Fprintf(&b, "Types: deb\nURIs: %s\nSuites: %s\nComponents: main\n", o.uri, o.suite)
		if o.signedBy != "" {
			fmt.Fprintf(&b, "Signed-By: %s\n", o.signedBy)
		}
		b.WriteString("\n")
	}
	return b.String()
}
