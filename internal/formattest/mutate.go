// SPDX-License-Identifier: Apache-2.0

package formattest

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Mutated returns a recording of which a few things are others. Its checksums, lengths and
// number of records are right, so that what reads the contents is reached.
func (r *Recording) Mutated(random *rand.Rand) *Recording {
	m := &mutation{random, &Recording{header: r.header}}
	for _, b := range r.Blocks {
		m.to.Blocks = append(m.to.Blocks, Block{b.Kind, slices.Clone(b.Data)})
	}
	for range 1 + random.IntN(3) {
		b := &m.to.Blocks[random.IntN(len(r.Blocks))]
		if random.IntN(3) == 0 { // of which there may be few
			b = m.to.records(random)
		}
		m.change(b)
	}
	m.to.recount()
	return m.to
}

// records returns one of the blocks of records; another one if there is none.
func (r *Recording) records(random *rand.Rand) *Block {
	at := random.IntN(len(r.Blocks))
	for i := range r.Blocks {
		if b := &r.Blocks[(at+i)%len(r.Blocks)]; b.Kind == blockRecords {
			return b
		}
	}
	return &r.Blocks[at]
}

// recount has the end say how many records there are.
func (r *Recording) recount() {
	n := 0
	for _, b := range r.Blocks {
		if b.Kind == blockRecords {
			n += len(split(b.Data))
		}
	}
	for i := range r.Blocks {
		b := &r.Blocks[i]
		var end map[string]any
		if b.Kind == blockEnd && json.Unmarshal(b.Data, &end) == nil {
			end["Records"] = n
			b.Data, _ = json.Marshal(end) // it was JSON
		}
	}
}

// split returns the records of a block.
func split(block []byte) (records [][]byte) {
	for len(block) > 0 {
		size, n := binary.Uvarint(block)
		if n <= 0 || size > uint64(len(block)-n) {
			return records
		}
		records, block = append(records, block[n:n+int(size)]), block[n+int(size):]
	}
	return records
}

type mutation struct {
	*rand.Rand
	to *Recording
}

// change changes a block in a way that suits its kind, and rarely in any way.
func (m *mutation) change(b *Block) {
	if m.IntN(16) == 0 {
		b.Data = m.bytes(b.Data)
		return
	}
	switch b.Kind {
	case blockInfo, blockEnd:
		b.Data = m.json(b.Data)
	case blockPlan:
		lines := bytes.SplitAfter(b.Data, []byte("\n"))
		i := m.IntN(len(lines))
		lines[i] = append(m.json(lines[i]), '\n')
		b.Data = bytes.Join(lines, nil)
	case blockSymbols:
		b.Data = m.symbols(b.Data)
	case blockFile:
		name, data, _ := bytes.Cut(b.Data, []byte{0})
		switch {
		case bytes.HasPrefix(data, []byte{0x9f, 0xeb}):
			data = m.types(data)
		case bytes.HasSuffix(name, []byte("kallsyms")):
			data = m.symbols(data)
		default:
			data = m.bytes(data)
		}
		b.Data = slices.Concat(name, []byte{0}, data)
	case blockRecords:
		b.Data = m.records(b.Data)
	}
}

// words are numbers at which something may change: limits, errors, addresses.
var words = [...]uint64{0, 1, 7, 8, 0x7f, 0xff, 0x7fff, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff, 1 << 32, 1<<53 + 1, 1<<63 - 1, 1 << 63,
	1<<64 - 1, 1<<64 - 2, 1<<64 - 12, 1<<64 - 4095, 1<<64 - 4096, Syscall, Open + 0x50, alloc, 0x0000000012345678}

func (m *mutation) word() uint64 { return words[m.IntN(len(words))] }

// text returns a text that is not expected anywhere.
func (m *mutation) text() string {
	switch m.IntN(6) {
	case 0:
		return ""
	case 1:
		return strings.Repeat("a", 1<<m.IntN(14))
	case 2:
		return strings.Repeat("%s%n\\\"'`$(<&;,:|", 1+m.IntN(4))
	case 3:
		return string(bytes.Repeat([]byte{byte(m.Uint32())}, 1+m.IntN(20)))
	}
	return Evil
}

// bytes changes bytes anywhere.
func (m *mutation) bytes(data []byte) []byte {
	if len(data) == 0 {
		return []byte(m.text())
	}
	at := m.IntN(len(data))
	end := min(len(data), at+1+m.IntN(16))
	switch m.IntN(5) {
	case 0:
		data[at] ^= 1 << m.IntN(8)
	case 1:
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], m.word())
		copy(data[at:], word[:1<<m.IntN(4)])
	case 2:
		return slices.Delete(data, at, end)
	case 3:
		return slices.Insert(data, at, data[at:end]...)
	default:
		copy(data[at:end], m.text())
	}
	return data
}

// records changes a record, or which of them there are.
func (m *mutation) records(block []byte) []byte {
	records := split(block)
	if len(records) == 0 {
		return block
	}
	i := m.IntN(len(records))
	switch m.IntN(8) {
	case 0:
		records = slices.Delete(records, i, i+1)
	case 1:
		records = slices.Insert(records, i, slices.Repeat(records[i:i+1], 1+m.IntN(40))...)
	case 2:
		j := m.IntN(len(records))
		records[i], records[j] = records[j], records[i]
	case 3:
		records[i] = m.bytes(slices.Clone(records[i]))
	default: // a number, or a name
		raw := slices.Clone(records[i])
		for range 1 + m.IntN(3) {
			at := 4 * m.IntN(len(raw)/4+1)
			var word [8]byte
			binary.LittleEndian.PutUint64(word[:], m.word())
			switch m.IntN(4) {
			case 0:
				copy(raw[at:], Evil[:1+m.IntN(16)])
			case 1:
				copy(raw[at:], word[:4])
			default:
				copy(raw[at:], word[:])
			}
		}
		records[i] = raw
	}
	var out []byte
	for _, raw := range records {
		out = append(binary.AppendUvarint(out, uint64(len(raw))), raw...)
	}
	return out
}

// symbols changes lines of symbols.
func (m *mutation) symbols(text []byte) []byte {
	lines := strings.SplitAfter(string(text), "\n")
	i := m.IntN(len(lines))
	name := strings.NewReplacer("\n", "", " ", "").Replace(m.text())
	fields := strings.Fields(lines[i])
	switch {
	case m.IntN(4) == 0 || len(fields) < 3:
		lines[i] = fmt.Sprintf("%x t %s\n", m.word(), name)
	case m.IntN(2) == 0:
		lines[i] = strings.Replace(lines[i], fields[2], name, 1)
	case m.IntN(2) == 0:
		lines[i] = strings.Replace(lines[i], fields[0], fmt.Sprintf("%x", m.word()), 1)
	default:
		lines[i] = strings.TrimSuffix(lines[i], "\n") + "\t[" + name + "]\n"
	}
	return []byte(strings.Join(lines, ""))
}

// btfHeader is the size of the header of BTF, whose last words are places and lengths of
// types and of names.
const btfHeader = 24

// types changes a name of BTF, a word that describes a type, or the header.
func (m *mutation) types(data []byte) []byte {
	if len(data) < btfHeader {
		return m.bytes(data)
	}
	place := func(at int) []byte {
		off, size := binary.LittleEndian.Uint32(data[at:]), binary.LittleEndian.Uint32(data[at+4:])
		from := min(btfHeader+uint64(off), uint64(len(data)))
		return data[from:min(from+uint64(size), uint64(len(data)))]
	}
	switch types, names := place(8), place(16); {
	case m.IntN(32) == 0:
		binary.LittleEndian.PutUint32(data[4*m.IntN(btfHeader/4):], uint32(m.word()))
	case m.IntN(2) == 0 && len(names) > 1:
		at := 1 + m.IntN(len(names)-1)
		end := at + max(0, bytes.IndexByte(names[at:], 0))
		name := bytes.ReplaceAll([]byte(m.text()), []byte{0}, []byte{'a'})
		copy(names[at:end], name)
	case len(types) >= 4:
		at := 4 * m.IntN(len(types)/4)
		word := uint32(m.word())
		if m.IntN(2) == 0 { // most words are numbers of types, and small
			word = uint32(m.IntN(64))
		}
		binary.LittleEndian.PutUint32(types[at:], word)
	}
	return data
}

// json changes a value of some JSON, wherever it is.
func (m *mutation) json(text []byte) []byte {
	var v any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return m.bytes(text)
	}
	out, err := json.Marshal(m.value(v))
	if err != nil { // a number that is none
		return text
	}
	return out
}

// value changes a value, or one in it.
func (m *mutation) value(v any) any {
	switch v := v.(type) {
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys) // so that the same seed changes the same
		if len(keys) == 0 || m.IntN(16) == 0 {
			v[m.text()] = m.text()
			return v
		}
		k := keys[m.IntN(len(keys))]
		if m.IntN(16) == 0 {
			delete(v, k)
			return v
		}
		v[k] = m.value(v[k])
		return v
	case []any:
		if len(v) == 0 || m.IntN(8) == 0 {
			return append(v, m.text())
		}
		i := m.IntN(len(v))
		v[i] = m.value(v[i])
		return v
	case json.Number:
		if m.IntN(8) == 0 {
			return -1
		}
		return m.word()
	case bool:
		return !v
	case string:
		if raw, err := base64.StdEncoding.DecodeString(v); err == nil && m.IntN(2) == 0 { // of bytes
			return m.bytes(raw)
		}
		return m.text()
	}
	return m.text()
}
