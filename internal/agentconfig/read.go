// SPDX-License-Identifier: Apache-2.0

package agentconfig

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ksnoop/ksnoop/internal/suggest"
)

// Limits of a file. 256 KiB are 64 requests of 4 KiB, and the parser takes 30 MB at most for them.
const (
	MaxSize     = 256 << 10
	maxRequests = 64 // each is a process
	maxList     = 4096
	maxValue    = 64 << 10 // bytes; the kernel takes twice that for an argument of a process
)

// keySpecs is the key of a request that is no option.
const keySpecs = "specs"

var topKeys = []string{"listen", "allow-remote", "defaults", "requests"}

// requestName is also the value of a label in metrics.
var requestName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$`)

// Read reads a file. file is its name, for messages. target returns a Target for each request. A fault of
// the file is in Faults.
func Read(file string, r io.Reader, target func() Target) (*Config, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxSize+1))
	if err != nil {
		return nil, err
	}
	c := &Config{file: file, text: string(data)}
	if len(data) > MaxSize {
		return nil, c.syntax(1, "a configuration may have %d bytes, and there are more", MaxSize)
	}
	root, err := c.parse()
	if err != nil {
		return nil, err
	}
	b := &builder{config: c, target: target}
	b.top(root)
	if err := sorted(b.faults); err != nil {
		return nil, err
	}
	return c, nil
}

// parserLine is how the parser says where something is: it knows no column.
var parserLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// grammar are the errors of the parser proper, for which it counts lines from 0; for those of its scanner it
// counts from 1.
var grammar = regexp.MustCompile("did not find expected (<|node content|key|',' or|'-' indicator)|undefined tag handle|duplicate %|incompatible YAML")

// parse returns the root of the only document.
func (c *Config) parse() (*yaml.Node, error) {
	d := yaml.NewDecoder(strings.NewReader(c.text))
	var doc, second yaml.Node
	switch err := d.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, c.syntax(1, `the file is empty; it needs "requests:"`)
	case err != nil:
		found := parserLine.FindStringSubmatch(err.Error())
		line := 1
		if len(found) > 1 && found[1] != "" {
			line, _ = strconv.Atoi(found[1]) // digits
			if grammar.MatchString(err.Error()) {
				line++
			}
		}
		return nil, c.syntax(max(line, 1), "this is not YAML: %s", parserLine.ReplaceAllString(err.Error(), ""))
	}
	if err := d.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, c.syntax(max(second.Line, 1), "a second document begins here; a file has one")
	}
	if len(doc.Content) != 1 || doc.Content[0].Tag == "!!null" {
		return nil, c.syntax(1, `the file is empty; it needs "requests:"`)
	}
	return doc.Content[0], nil
}

// A builder makes a Config of a tree.
type builder struct {
	config   *Config
	target   func() Target
	faults   Faults
	defaults []entry
}

// An entry is a key of a mapping with its value.
type entry struct {
	name       string
	key, value *yaml.Node
}

func (b *builder) fault(at *yaml.Node, format string, args ...any) {
	b.faults = append(b.faults, &Fault{b.config.file, max(at.Line, 1), max(at.Column, 1), fmt.Sprintf(format, args...)})
}

// entries returns what a mapping has. what says in messages what it is.
func (b *builder) entries(n *yaml.Node, what string) []entry {
	if !b.plain(n) {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		b.fault(n, "%s has keys with values, as \"key: value\", and here is %s", what, describe(n))
		return nil
	}
	seen := map[string]*yaml.Node{}
	var all []entry
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if !b.plain(key) {
			continue
		}
		if key.Kind != yaml.ScalarNode {
			b.fault(key, "a key is one word, and here is %s", describe(key))
			continue
		}
		if first := seen[key.Value]; first != nil {
			b.fault(key, "%s is given twice; the first is in line %d", strconv.Quote(key.Value), first.Line)
			continue
		}
		seen[key.Value] = key
		all = append(all, entry{key.Value, key, n.Content[i+1]})
	}
	return all
}

// plain refuses what makes of one text another.
func (b *builder) plain(n *yaml.Node) bool {
	switch {
	case n.Kind == yaml.AliasNode:
		b.fault(n, "aliases (*%s) are not read; what all requests have in common stands below \"defaults:\"", n.Value)
	case n.Style&yaml.TaggedStyle != 0:
		b.fault(n, "tags (%s) are not read", n.Tag)
	case strings.ContainsRune(n.Value, 0):
		b.fault(n, "no value has a NUL (\\0)")
	case len(n.Value) > maxValue:
		b.fault(n, "a value may have %d bytes, and there are %d", maxValue, len(n.Value))
	default:
		return true
	}
	return false
}

func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Tag == "!!null":
		return "nothing"
	}
	return "one value"
}

func (b *builder) top(root *yaml.Node) {
	all := b.entries(root, "the file")
	if all == nil && len(b.faults) > 0 {
		return
	}
	found := map[string]*entry{}
	for i, e := range all {
		if !slices.Contains(topKeys, e.name) {
			b.unknown(e.key, e.name, topKeys)
			continue
		}
		found[e.name] = &all[i]
	}
	b.listen(found["listen"], found["allow-remote"])
	if e := found["defaults"]; e != nil {
		b.defaults = b.entries(e.value, "defaults")
		b.checkDefaults()
	}
	e := found["requests"]
	if e == nil {
		b.fault(root, `no "requests:" is given`)
		return
	}
	named := b.entries(e.value, "requests")
	if len(named) == 0 && len(b.faults) == 0 {
		b.fault(e.key, "there is no request")
	}
	if len(named) > maxRequests {
		b.fault(named[maxRequests].key, "there may be %d requests, and there are %d", maxRequests, len(named))
		return
	}
	for _, r := range named {
		b.request(r)
	}
}

func (b *builder) listen(at, remote *entry) {
	allowed := false
	if remote != nil {
		if remote.value.Kind != yaml.ScalarNode || remote.value.Tag != "!!bool" {
			b.fault(remote.value, "allow-remote is true or false")
			return
		}
		allowed = strings.EqualFold(remote.value.Value, "true")
	}
	switch {
	case at == nil && remote != nil:
		b.fault(remote.key, "allow-remote goes with listen")
	case at == nil || !b.plain(at.value):
	case at.value.Kind != yaml.ScalarNode || at.value.Tag == "!!null":
		b.fault(at.value, "listen takes an address, and here is %s", describe(at.value))
	default:
		var err error
		if b.config.Listen, err = parseListen(at.value.Value, allowed); err != nil {
			b.fault(at.value, "%v", err)
		}
	}
}

func (b *builder) unknown(at *yaml.Node, name string, known []string) {
	if hint := suggest.Hint(name, slices.Values(known)); hint != "" {
		b.fault(at, "there is no key %s; %s", strconv.Quote(name), hint)
		return
	}
	if len(known) <= len(topKeys) {
		b.fault(at, "there is no key %s; there are %s", strconv.Quote(name), strings.Join(known, ", "))
		return
	}
	b.fault(at, "there is no key %s; there are specs and the long options of ksnoop trace", strconv.Quote(name))
}

// checkDefaults looks at all that may be wrong with defaults alone, even if no request takes them.
func (b *builder) checkDefaults() {
	t := b.target()
	b.defaults = slices.DeleteFunc(b.defaults, func(e entry) bool {
		if e.name == keySpecs {
			b.fault(e.key, "specs are those of a request, and no defaults")
			return true
		}
		before := len(b.faults)
		b.set(&Request{Target: t}, e)
		return len(b.faults) > before // said once, and not for each request
	})
}

// request reads one request.
func (b *builder) request(e entry) {
	if !requestName.MatchString(e.name) {
		b.fault(e.key, "the name of a request is up to 63 letters, digits and . _ -, and %s is not", strconv.Quote(e.name))
		return
	}
	before := len(b.faults)
	r := &Request{Name: e.name, Target: b.target(), name: e.key, keys: map[string]*yaml.Node{}}
	own := map[string]bool{}
	var options []entry
	for _, o := range b.entries(e.value, "request "+e.name) {
		own[o.name] = true
		if o.value.Kind == yaml.ScalarNode && o.value.Tag == "!!null" && slices.ContainsFunc(b.defaults, func(d entry) bool { return d.name == o.name }) {
			continue // it takes a default away
		}
		if o.name == keySpecs {
			r.Specs = b.list(o)
			r.texts = append(r.texts, leaves(o.value)...)
			continue
		}
		options = append(options, o)
	}
	for _, d := range b.defaults {
		if !own[d.name] {
			options = append(options, d)
		}
	}
	slices.SortFunc(options, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	for _, o := range options {
		r.keys[o.name] = o.key
		r.texts = append(r.texts, leaves(o.value)...)
		b.set(r, o)
	}
	if len(b.faults) > before {
		return
	}
	r.Args = append(r.Args, r.Specs...)
	if err := r.Target.Check(r.Name, slices.Clone(r.Specs)); err != nil {
		b.faults = append(b.faults, b.config.place(r, err)...)
		return
	}
	b.config.Requests = append(b.config.Requests, r)
}

// set sets an option to all of its values.
func (b *builder) set(r *Request, o entry) {
	values, ok := b.values(r.Target, o)
	if !ok {
		return
	}
	for i, value := range values {
		if err := r.Target.Set(o.name, value); err != nil {
			b.fault(leaves(o.value)[i], "%v", err)
			return
		}
		r.Args = append(r.Args, "--"+o.name+"="+value)
	}
}

// values returns what an option is to be set to, one after the other. ok is false after a fault.
func (b *builder) values(t Target, o entry) (values []string, ok bool) {
	k, err := t.Key(o.name)
	if errors.Is(err, ErrUnknown) {
		b.unknown(o.key, o.name, append(t.Names(), keySpecs))
		return nil, false
	}
	if err != nil {
		b.fault(o.key, "%v", err)
		return nil, false
	}
	if !b.plain(o.value) {
		return nil, false
	}
	switch {
	case k.Repeatable && o.value.Kind == yaml.SequenceNode:
		before := len(b.faults)
		values := b.list(o)
		return values, len(b.faults) == before
	case o.value.Kind != yaml.ScalarNode || o.value.Tag == "!!null":
		want := "one value"
		if k.Repeatable {
			want += " or a list"
		}
		b.fault(o.value, "%s takes %s, and here is %s", o.name, want, describe(o.value))
		return nil, false
	}
	value, isBool := o.value.Value, o.value.Tag == "!!bool"
	if isBool {
		value = strings.ToLower(value)
	}
	switch {
	case k.Bool && !isBool:
		b.fault(o.value, "%s is true or false, and not %s", o.name, strconv.Quote(value))
		return nil, false
	case isBool && !k.Bool && k.Without == "":
		b.fault(o.value, "%s takes a value, and not %s", o.name, value)
		return nil, false
	case isBool && value == "false" && (!k.Bool || k.Default != "true"), k.Bool && value == k.Default:
		return nil, true // as if it were not given
	case isBool && !k.Bool:
		value = k.Without
	}
	return []string{value}, true
}

// list returns the words of a list, or of one value.
func (b *builder) list(o entry) (words []string) {
	if !b.plain(o.value) {
		return nil
	}
	items := leaves(o.value)
	if o.value.Kind == yaml.SequenceNode && len(items) == 0 {
		b.fault(o.value, "%s is an empty list", o.name)
		return nil
	}
	if o.value.Kind == yaml.MappingNode || len(items) == 0 {
		b.fault(o.value, "%s takes a list, and here is %s", o.name, describe(o.value))
		return nil
	}
	if len(items) > maxList {
		b.fault(items[maxList], "a list may have %d entries, and there are more", maxList)
		return nil
	}
	for i, n := range items {
		if !b.plain(n) {
			continue
		}
		if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
			b.fault(n, "%s: an entry of a list is one value, and here is %s; a SPEC with {, [, : or # stands in quotation marks", o.name, describe(n))
			continue
		}
		if i+1 < len(items) && o.name == keySpecs && o.value.Style&yaml.FlowStyle != 0 && n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) == 0 && strings.Count(n.Value, "(") > strings.Count(n.Value, ")") {
			b.fault(n, "%s is a part of a SPEC: in a list in brackets, a SPEC with a comma stands in quotation marks: ['vfs_read(count, return)']", strconv.Quote(n.Value))
			return nil
		}
		words = append(words, n.Value)
	}
	return words
}

// leaves returns the entries of a list, or one value.
func leaves(n *yaml.Node) []*yaml.Node {
	if n.Kind == yaml.SequenceNode {
		return n.Content
	}
	if n.Kind == yaml.ScalarNode && n.Tag != "!!null" || n.Kind == yaml.AliasNode {
		return []*yaml.Node{n}
	}
	return nil
}
