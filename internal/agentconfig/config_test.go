// SPDX-License-Identifier: Apache-2.0

package agentconfig

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/livetest"
)

// A fake is a Target with a few options.
type fake struct{ set []string }

var keys = map[string]Key{"rate": {}, "force": {Bool: true, Default: "false"}, "comm": {Repeatable: true}, "stack": {Without: "user"}, "count": {}}

func (*fake) Key(name string) (Key, error) {
	if name == "user" {
		return Key{}, errors.New("not in an agent")
	}
	k, ok := keys[name]
	if !ok {
		return k, ErrUnknown
	}
	return k, nil
}

func (*fake) Names() []string { return slices.Sorted(maps.Keys(keys)) }

func (f *fake) Set(name, value string) error {
	if strings.HasPrefix(value, "bad") {
		return fmt.Errorf("--%s %s: no", name, value)
	}
	f.set = append(f.set, name+"="+value)
	return nil
}

func (f *fake) Check(_ string, specs []string) error {
	var all []error
	for _, s := range specs {
		_, err := expr.Parse(s)
		all = append(all, err)
	}
	if slices.Contains(f.set, "count=9") {
		all = append(all, errors.New("--count 9: does not go with the rest"))
	}
	if slices.Contains(f.set, "count=8") {
		all = append(all, errors.New("nothing goes"))
	}
	return errors.Join(all...)
}

func read(text string) (*Config, error) {
	return Read("f.yaml", strings.NewReader(text), func() Target { return &fake{} })
}

// TestRead: keys become options in the order of their names, so that the order in the file means nothing.
func TestRead(t *testing.T) {
	c, err := read(`
listen: "[::1]:9469"
defaults: {rate: 5/s, force: true}
requests:
  one:
    specs: ['vfs_read(count)', "vfs_write"]
    stack: true
    comm: [a, "b c"]
  two:
    comm: a
    specs: vfs_read
    rate: ~
    force: false
    stack: kernel
  three: {specs: [f], rate: 7/s, stack: false}
`)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, r := range c.Requests {
		got[r.Name] = r.Args
	}
	if diff := cmp.Diff(map[string][]string{
		"one":   {"--comm=a", "--comm=b c", "--force=true", "--rate=5/s", "--stack=user", "vfs_read(count)", "vfs_write"},
		"two":   {"--comm=a", "--stack=kernel", "vfs_read"},
		"three": {"--force=true", "--rate=7/s", "f"},
	}, got); diff != "" {
		t.Error(diff)
	}
	if want := (Listen{"tcp", "[::1]:9469"}); c.Listen != want {
		t.Errorf("%v, want %v", c.Listen, want)
	}
}

// TestFaults: each fault has the line and the column at which a person would look. Columns were counted by hand.
func TestFaults(t *testing.T) {
	deep := strings.Repeat("[", 20000)
	for _, c := range []struct{ text, want string }{
		{"", `1:1: the file is empty; it needs "requests:"`},
		{"---\n", `1:1: the file is empty; it needs "requests:"`},
		{"# nothing\n", `1:1: the file is empty; it needs "requests:"`},
		{"requests: {a: {specs: [f]}}\n---\nb: 1\n", "2:1: a second document begins here; a file has one"},
		{"requests:\n  a:\n   specs: [f\n", "3:1: this is not YAML: did not find expected ',' or ']'"},
		{"requests:\n  a: \"\\q\"\n", "2:1: this is not YAML: found unknown escape character"},
		{"requests:\n  a: b\n c: d\n", "3:1: this is not YAML: did not find expected key"},
		{"requests: " + deep, "1:1: this is not YAML: exceeded max depth of 10000"},
		{strings.Repeat("#", MaxSize+1), "1:1: a configuration may have 262144 bytes, and there are more"},
		{"[1]", `1:1: the file has keys with values, as "key: value", and here is a list`},
		{"requets: {}", "1:1: there is no key \"requets\"; did you mean \"requests\"?\n1:1: no \"requests:\" is given"},
		{"requests: {}", "1:1: there is no request"},
		{"requests: 5", `1:11: requests has keys with values, as "key: value", and here is one value`},
		{"requests:\n  a: {specs: [f], raet: 5}", `2:19: there is no key "raet"; did you mean "rate"?`},
		{"requests:\n  a: {specs: [f], zzzzzzzzz: 5}", `2:19: there is no key "zzzzzzzzz"; there are specs and the long options of ksnoop trace`},
		{"requests:\n  a: {specs: [f]}\n  a: {specs: [g]}", `3:3: "a" is given twice; the first is in line 2`},
		{"requests:\n  a b: {specs: [f]}", `2:3: the name of a request is up to 63 letters, digits and . _ -, and "a b" is not`},
		{"requests:\n  a: {specs: [f], rate: [1]}", "2:25: rate takes one value, and here is a list"},
		{"requests:\n  a: {specs: [f], rate: ~}", "2:25: rate takes one value, and here is nothing"},
		{"requests:\n  a: {specs: [f], comm: {b: c}}", "2:25: comm takes one value or a list, and here is a mapping"},
		{"requests:\n  a: {specs: [f], force: 1}", `2:26: force is true or false, and not "1"`},
		{"requests:\n  a: {specs: [f], rate: true}", "2:25: rate takes a value, and not true"},
		{"requests:\n  a: {specs: [f], user: me}", "2:19: not in an agent"},
		{"requests:\n  a: {specs: [f], comm: [x, bad1]}", "2:29: --comm bad1: no"},
		{"defaults: {rate: bad}\nrequests:\n  a: {specs: [f]}\n  b: {specs: [f]}", "1:18: --rate bad: no"},
		{"defaults: {specs: [f]}\nrequests: {a: {specs: [f]}}", "1:12: specs are those of a request, and no defaults"},
		{"requests:\n  a: {specs: [f], count: 9}", "2:19: request a: --count 9: does not go with the rest"},
		{"requests:\n  a: {specs: [f], count: 8}", "2:3: request a: nothing goes"},
		{"requests:\n  a: {specs: []}", "2:14: specs is an empty list"},
		{"requests:\n  a: {specs: [f, [g]]}", "2:18: specs: an entry of a list is one value, and here is a list; a SPEC with {, [, : or # stands in quotation marks"},
		{"requests:\n  a: {specs: &x [f]}\n  b: {specs: *x}", `3:14: aliases (*x) are not read; what all requests have in common stands below "defaults:"`},
		{"requests:\n  a: {specs: [!!binary Zg==]}", "2:15: tags (!!binary) are not read"},
		{"requests:\n  ? [a]\n  : {specs: [f]}", "2:5: a key is one word, and here is a list"},
		{"listen: 10.0.0.1:80\nrequests: {a: {specs: [f]}}", `1:9: "10.0.0.1:80" can be reached from other machines, and whoever reaches it sees what is traced; write 127.0.0.1:80, or add allow-remote: true`},
		{"listen: :80\nrequests: {a: {specs: [f]}}", `1:9: ":80" can be reached from other machines, and whoever reaches it sees what is traced; write 127.0.0.1:80, or add allow-remote: true`},
		{"listen: 127.0.0.1\nrequests: {a: {specs: [f]}}", `1:9: "127.0.0.1" is no address; write 127.0.0.1:PORT, or unix:/PATH`},
		{"listen: unix:x\nrequests: {a: {specs: [f]}}", "1:9: the path of a socket begins with / and has up to 107 bytes"},
		{"allow-remote: true\nrequests: {a: {specs: [f]}}", "1:1: allow-remote goes with listen"},
	} {
		_, err := read(c.text)
		got := ""
		if err != nil {
			got = strings.ReplaceAll(err.Error(), "f.yaml:", "")
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%.80q:\n%s", c.text, diff)
		}
	}
}

// TestSpecFaults: a fault of a SPEC is where the SPEC stands in the file, as far as the file has its text as it is.
func TestSpecFaults(t *testing.T) {
	for _, c := range []struct {
		text         string
		line, column int
		prefix       string
	}{
		{"requests:\n  a:\n    specs: [vfs_read(count ==)]", 3, 30, ""}, // the parenthesis
		{"requests:\n  a:\n    specs: ['vfs_read(count ==)']", 3, 31, ""},
		{"requests:\n  a:\n    specs:\n    - 'ü(count ==)'", 4, 18, ""},
		{"requests:\n  a:\n    specs: [\"vfs_read(\\x63ount ==)\"]", 3, 13, "column 18 of the SPEC: "},
		{"requests:\n  a:\n    specs:\n    - |-\n      vfs_read(count ==)", 4, 7, "column 18 of the SPEC: "},
	} {
		_, err := read(c.text)
		var faults Faults
		if !errors.As(err, &faults) {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		if f := faults[0]; f.Line != c.line || f.Column != c.column || !strings.HasPrefix(f.Text, c.prefix) || c.prefix == "" && strings.HasPrefix(f.Text, "column") {
			t.Errorf("%q: %v, want %d:%d: %s...", c.text, f, c.line, c.column, c.prefix)
		}
	}
}

// TestBounded: what would grow when it is read, or takes a parser long, ends soon.
func TestBounded(t *testing.T) {
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for i := 'b'; i <= 'k'; i++ {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", i, i, strings.TrimSuffix(strings.Repeat("*"+string(i-1)+",", 9), ","))
	}
	for _, unit := range []string{"[", "{a: ", "- ", "? ", "!a ", "'", "\"\\x41", "#\n", "a: [b: c,", "&a ", "*a ", "%YAML 1.1\n", "\t", "|\n", "k: v\n"} {
		for _, text := range []string{strings.Repeat(unit, MaxSize/len(unit)), "requests: " + strings.Repeat(unit, MaxSize/len(unit)-10), bomb + strings.Repeat(unit, 20000/len(unit))} {
			begin := livetest.CPUTime(t)
			if _, err := read(text); err == nil {
				t.Errorf("%q is taken", unit)
			}
			if took := livetest.CPUTime(t) - begin; took > 5*time.Second { // a tenth of a second on an idle machine
				t.Errorf("%q took %v", unit, took)
			}
		}
	}
	var many strings.Builder
	many.WriteString("requests:\n")
	for i := range maxRequests + 1 {
		fmt.Fprintf(&many, "  r%d: {specs: [f]}\n", i)
	}
	if _, err := read(many.String()); err == nil || !strings.Contains(err.Error(), "66:3: there may be 64 requests, and there are 65") {
		t.Errorf("%v", err)
	}
}

// FuzzRead: nothing in a file makes it panic, and all faults lie in the file.
func FuzzRead(f *testing.F) {
	f.Add("requests:\n  a: {specs: ['vfs_read(count ==)'], stack: true}\ndefaults: {comm: [a]}\nlisten: unix:/x\n")
	f.Add("requests:\n  a: &x {specs: *x}\n")
	f.Add("? [a]\n: b\n---\n!!int 5")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := read(text)
		if err == nil {
			if len(c.Requests) == 0 {
				t.Error("a file without requests is taken")
			}
			return
		}
		var faults Faults
		if !errors.As(err, &faults) || len(faults) == 0 {
			t.Fatalf("%v is no fault of the file", err)
		}
		for _, fault := range faults {
			if fault.Line < 1 || fault.Column < 1 || fault.Line > strings.Count(text, "\n")+strings.Count(text, "\r")+strings.Count(text, "\u0085")+strings.Count(text, "\u2028")+strings.Count(text, "\u2029")+2 {
				t.Errorf("%v lies outside of a file of %d lines", fault, strings.Count(text, "\n")+1)
			}
		}
	})
}
