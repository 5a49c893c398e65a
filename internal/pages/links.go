// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`^#{1,6} +(.*?)\s*$`)
	noWord  = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	code    = regexp.MustCompile("`[^`]*`")
)

// anchor is what GitHub makes of a heading.
func anchor(title string) string {
	title = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(title, "$1")
	return strings.ReplaceAll(noWord.ReplaceAllString(strings.ToLower(title), ""), " ", "-")
}

// anchors are those of a page's headings.
func (p *Page) anchors() map[string]bool {
	all := map[string]bool{}
	for i := 0; i < len(p.lines); i++ {
		if end := p.blockEnd(i); end > i {
			i = end - 1
			continue
		}
		m := heading.FindStringSubmatch(strings.TrimSuffix(p.lines[i], "\n"))
		if m == nil {
			continue
		}
		name := anchor(m[1])
		for n, base := 1, name; all[name]; n++ {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		all[name] = true
	}
	return all
}

// Links returns the targets of links in the page's text, by line.
func (p *Page) Links() map[int][]string {
	all := map[int][]string{}
	for i := 0; i < len(p.lines); i++ {
		if end := p.blockEnd(i); end > i {
			i = end - 1
			continue
		}
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(p.lines[i], "`"), -1) {
			all[i+1] = append(all[i+1], m[1])
		}
	}
	return all
}

// BrokenLinks says which links of the pages lead nowhere: to a file that is not there, or to a heading that the
// page does not have. Those to other sites are not followed.
func BrokenLinks(root fs.FS, all []*Page) (faults []string) {
	byName := map[string]*Page{}
	for _, p := range all {
		byName[p.Name] = p
	}
	for _, p := range all {
		for line, targets := range p.Links() {
			for _, target := range targets {
				if strings.Contains(target, "://") {
					continue
				}
				file, fragment, _ := strings.Cut(target, "#")
				name := p.Name
				if file != "" {
					name = path.Join(p.Dir(), file)
				}
				if _, err := fs.Stat(root, name); err != nil {
					faults = append(faults, fmt.Sprintf("%s:%d: %s: there is no %s", p.Name, line, target, name))
				} else if to := byName[name]; fragment != "" && (to == nil || !to.anchors()[fragment]) {
					faults = append(faults, fmt.Sprintf("%s:%d: %s: %s has no such heading", p.Name, line, target, name))
				}
			}
		}
	}
	return faults
}
