// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/agentconfig"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plural"
)

// agentFlags are the options of "ksnoop agent".
type agentFlags struct {
	file  string
	check bool
}

func newAgentCommand() *cobra.Command {
	var f agentFlags
	c := &cobra.Command{
		Use:   "agent --config FILE",
		Short: "Trace as a service, several requests at once",
		Long: strings.TrimSpace(`
agent runs the requests of a configuration file, each in a process of its own.
The keys of a request are the long options of ksnoop trace, and specs:

    listen: 127.0.0.1:9469
    defaults:
      max-cpu: 5%
    requests:
      slow-reads:
        specs: ['vfs_read(count, $duration > 10ms)']
        rate: 100/s
        otlp: http://localhost:4318
      failed-opens:
        entry: [do_sys_openat2]
        only-errors: [EACCES, EPERM]
        record: /var/lib/ksnoop/failed-opens
        rotate: 100M
        keep: 5

What can be given several times is a list. An option without a value is true.
What is wrong in the file is said with line and column, and the status is 2.

SIGHUP reads the file again: requests that are the same go on, others are
stopped and begun again. If the new file is wrong, the old requests go on.
SIGTERM and SIGINT end all. A request that fails is begun again, after one
second at first, and after five minutes at most. /metrics and /healthz tell
what each request does.`),
		Example: `  ksnoop agent --config /etc/ksnoop/agent.yaml --check
  ksnoop agent --config /etc/ksnoop/agent.yaml`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("agent takes no arguments, and here is %q: the requests stand in the file of --config", args[0])
			}
			if f.file == "" {
				return usagef("--config FILE is missing: which requests?")
			}
			if !f.check {
				return f.run(c.ErrOrStderr())
			}
			return f.checkFile(c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.file, "config", "", "read the requests from `FILE`")
	flags.BoolVar(&f.check, "check", false, "check the file, with SPECs against this kernel if its types can be read, and end")
	return c
}

// read reads the configuration. What is wrong in it is a usageError.
func (f *agentFlags) read() (*agentconfig.Config, error) {
	// A pipe without a writer would wait for one, and a reload with it.
	file, err := os.OpenFile(f.file, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, usagef("--config: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, usagef("--config %s: a configuration is a regular file", f.file)
	}
	data, err := io.ReadAll(io.LimitReader(file, agentconfig.MaxSize+1))
	if err != nil {
		return nil, usagef("--config: %w", err)
	}
	config, err := agentconfig.Read(f.file, bytes.NewReader(data), newAgentRequests())
	var faults agentconfig.Faults
	if errors.As(err, &faults) {
		return nil, usageError{err}
	}
	return config, err
}

// checkFile says what is wrong with the file, here and now.
func (f *agentFlags) checkFile(stdout, stderr io.Writer) error {
	config, err := f.read()
	if err != nil {
		return err
	}
	view := kernel.OpenRunning()
	if _, err := view.BTF(); err != nil {
		fmt.Fprintf(stderr, "ksnoop: SPECs are not checked against the kernel: %v\n", err)
	} else {
		var all []error
		for _, r := range config.Requests {
			if err := r.Target.(*agentRequest).checkKernel(view, r.Specs); err != nil {
				all = append(all, config.Place(r, err))
			}
		}
		if err := errors.Join(all...); err != nil {
			return usageError{err}
		}
	}
	_, err = fmt.Fprintf(stdout, "%s: %s\n", f.file, plural.Of(len(config.Requests), "request{s}"))
	return err
}
