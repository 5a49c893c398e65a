// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

// A Shell runs a command and returns what a terminal would have shown. The exit status is no matter: some pages
// show how commands fail.
type Shell func(command string) (printed string, err error)

// Patience is many times what a command of a page takes on a machine that does nothing else.
const Patience = 2 * time.Minute

// In is a shell in a folder of this machine. A command that takes longer than patience is killed, which is an error.
func In(ctx context.Context, dir string, env []string, patience time.Duration) Shell {
	return func(command string) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		c := exec.CommandContext(ctx, "sh", "-c", command)
		c.Dir, c.Env, c.WaitDelay = dir, env, time.Second
		var out bytes.Buffer
		c.Stdout, c.Stderr = &out, &out
		err := c.Run()
		if ctx.Err() == nil && c.ProcessState != nil {
			err = nil
		}
		return out.String(), err
	}
}

// Run runs the commands of the page that belong in a guest, or those that do not, in their order.
func (p *Page) Run(guest bool, sh Shell, each func(Result)) error {
	for _, b := range p.Blocks {
		if b.NotRun != "" || b.List || b.Guest != guest {
			continue
		}
		for _, c := range b.Commands {
			printed, err := sh(c.Text)
			if err != nil {
				return fmt.Errorf("%s: %w; it has printed %q", c.Text, err, printed)
			}
			each(Result{b, c, printed})
		}
	}
	return nil
}

var (
	ofKsnoop    = regexp.MustCompile(`^(?:sudo )?(?:\./)?ksnoop (?:trace )?(.*)$`)
	placeholder = regexp.MustCompile(`\b[A-Z]{3,}\b`)
	quoted      = regexp.MustCompile(`'[^']*'`)
	printing    = regexp.MustCompile(` (--format|-o) \S+`)
)

// DryRun returns a command that tells whether one of a list could be run on this kernel: ksnoop looks at what is to
// be traced, and traces nothing. It is "" for one that traces nothing, has a placeholder, or needs debug info.
func (c Command) DryRun() string {
	// --dry-run prints no calls, and so takes no options about how.
	m := ofKsnoop.FindStringSubmatch(printing.ReplaceAllString(c.Text, ""))
	if m == nil || strings.Contains(c.Remark, "debug info") || placeholder.MatchString(quoted.ReplaceAllString(m[1], "")) {
		return ""
	}
	switch first, _, _ := strings.Cut(m[1], " "); first {
	case "info", "doctor", "schema":
		return "ksnoop " + m[1]
	case "replay", "print", "sym", "help", "report", "view", "diff", "completion":
		return ""
	}
	return "ksnoop trace --dry-run " + m[1]
}
