// SPDX-License-Identifier: Apache-2.0

package formattest

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A Schema says what lines of JSON are to be like.
type Schema struct{ compiled *jsonschema.Schema }

// CompileSchema compiles the text of a JSON Schema.
func CompileSchema(text string) (*Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	const name = "schema.json"
	if err := c.AddResource(name, doc); err != nil {
		return nil, err
	}
	compiled, err := c.Compile(name)
	return &Schema{compiled}, err
}

// Check returns what is wrong with a line: it is no JSON that the schema admits, an object in
// it has a key twice, or a terminal would act on it.
func (s *Schema) Check(line string) error {
	if raw := Unsafe(line); raw != "" {
		return fmt.Errorf("%q is in it", raw)
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(line))
	if err != nil {
		return err
	}
	if err := s.compiled.Validate(doc); err != nil {
		return err
	}
	return twice(line)
}

// twice returns an error if an object has a key twice: what reads it would drop a value.
func twice(line string) error {
	d := json.NewDecoder(strings.NewReader(line))
	var open []map[string]bool // keys of the objects around; nil for arrays
	key := false               // a key is next
	for {
		token, err := d.Token()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		switch token := token.(type) {
		case json.Delim:
			switch token {
			case '{':
				open = append(open, map[string]bool{})
			case '[':
				open = append(open, nil)
			default:
				open = open[:len(open)-1]
			}
			key = true
			continue
		case string:
			if keys := open[max(0, len(open)-1)]; keys != nil && key {
				if keys[token] {
					return fmt.Errorf("%q is a key twice", token)
				}
				keys[token], key = true, false
				continue
			}
		}
		key = true
	}
}
