// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ksnoop/ksnoop/internal/jsonlines"
)

func newSchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of what --format json prints",
		Long: strings.TrimSpace(`
schema prints a JSON Schema (draft 2020-12) that describes each line of what the
commands trace, replay and why print with --format json.`),
		Example: "  ksnoop schema >ksnoop.schema.json",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) != 0 {
				return usagef("schema takes no arguments")
			}
			_, err := io.WriteString(c.OutOrStdout(), jsonlines.Schema())
			return err
		},
	}
}
