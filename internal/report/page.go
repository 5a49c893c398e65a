// SPDX-License-Identifier: Apache-2.0

package report

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"html"
	"io/fs"
	"strings"
)

//go:embed page assets/vendor.js assets/vendor.css assets/LICENSES.txt
var files embed.FS

// scripts are the parts of the page's script, each of which uses those before it.
var scripts = [...]string{"values.js", "model.js", "filter.js", "frames.js", "list.js", "timeline.js", "detail.js", "flame.js", "latency.js", "tables.js", "main.js"}

// text returns a file that is embedded.
func text(name string) string {
	content, err := fs.ReadFile(files, name)
	if err != nil {
		panic(err) // the tests read all of them
	}
	return string(content)
}

// script returns the page's own script. What its parts define is visible to each other only.
func script() string {
	var s strings.Builder
	s.WriteString("(() => {\n\"use strict\";\n")
	for _, name := range scripts {
		s.WriteString(text("page/" + name))
	}
	s.WriteString("})();\n")
	return s.String()
}

// policy returns the content of the policy that allows the page's own styles and scripts, and no
// other source of anything.
func policy(style string, scripts ...string) string {
	var p strings.Builder
	p.WriteString("default-src 'none'; base-uri 'none'; form-action 'none'; style-src '" + hash(style) + "'; script-src")
	for _, s := range scripts {
		p.WriteString(" '" + hash(s) + "'")
	}
	return p.String()
}

// hash returns a text's hash as a policy has it.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// appendHead appends the page up to its data. The scripts stand before the data: in a page that is cut off,
// they tell so.
func appendHead(dst []byte) []byte {
	style := text("assets/vendor.css") + text("page/style.css")
	dst = append(dst, strings.NewReplacer("{{policy}}", policy(style, text("assets/vendor.js"), script()), "{{style}}", style).Replace(text("page/head.html"))...)
	licenses := html.EscapeString(text("assets/LICENSES.txt"))
	dst = append(append(append(dst, "<pre id=\"licenses\" hidden>"...), licenses...), "</pre>\n"...)
	for _, s := range [...]string{text("assets/vendor.js"), script()} {
		dst = append(append(append(dst, "<script>"...), s...), "</script>\n"...)
	}
	return dst
}

// appendFoot appends what follows the data.
func appendFoot(dst []byte) []byte { return append(dst, "</body>\n</html>\n"...) }
