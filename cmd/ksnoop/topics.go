// SPDX-License-Identifier: Apache-2.0

package main

import (
	"embed"
	"strings"

	"github.com/spf13/cobra"
)

//go:embed topics
var topicFiles embed.FS

// topics are the pages of "ksnoop help", which are in topicFiles.
var topics = []struct{ name, short string }{
	{"language", "SPECs: functions, predicates, values, aggregations"},
	{"sessions", "where in the kernel something failed"},
	{"formats", "JSON, recordings, traces, profiles and flame graphs"},
}

// newTopics returns commands that do nothing but to be asked for help about.
func newTopics() []*cobra.Command {
	var all []*cobra.Command
	for _, t := range topics {
		text, err := topicFiles.ReadFile("topics/" + t.name + ".txt")
		if err != nil {
			panic(err) // the file is in the program
		}
		c := &cobra.Command{Use: t.name, Short: t.short, Long: strings.TrimSpace(string(text))}
		c.SetUsageTemplate("\n") // there is nothing to use
		all = append(all, c)
	}
	return all
}
