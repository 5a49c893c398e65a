// SPDX-License-Identifier: Apache-2.0

package main

import "embed"

// scripts are the shells' sides of completion.
//
//go:embed completions
var scripts embed.FS
