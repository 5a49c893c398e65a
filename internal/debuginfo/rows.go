// SPDX-License-Identifier: Apache-2.0

package debuginfo

import "runtime/debug"

// A Row says which source line the code comes from, from an address up to that of the next
// row.
type Row struct {
	Addr uint64
	File string
	Line uint32 // 0 for code of no line
}

// Rows appends the rows of the code from lo to hi, by address. The first is at lo. It
// appends none if the line of lo is unknown.
func (i *Info) Rows(dst []Row, lo, hi uint64) (rows []Row) {
	defer i.recovered(debug.SetPanicOnFault(true))
	rows = dst // if the file cannot be read
	if !i.ready() {
		return dst
	}
	slide := i.options.slide
	lo, hi = lo-slide, hi-slide
	off, ok := i.units.find(lo)
	if !ok {
		return dst
	}
	u := i.stream.units.open(i.sections, off)
	if u == nil {
		return dst
	}
	u.readLines()
	for _, s := range u.lines.sequences {
		if s.contains(lo) {
			return u.appendRows(dst, u.lines.rows[s.first:s.last-1], lo, min(hi, s.hi), slide, i.options.Relative)
		}
	}
	return dst
}

// appendRows appends the rows between lo and hi. The first starts at lo, even if its
// code starts earlier.
func (u *unit) appendRows(dst []Row, rows []row, lo, hi, slide uint64, relative bool) []Row {
	base := len(dst)
	for _, r := range rows {
		if r.addr >= hi {
			break
		}
		addr := max(r.addr, lo)
		if n := len(dst); n > base && dst[n-1].Addr == addr+slide {
			dst = dst[:n-1] // of several rows with the same address, the last counts
		}
		dst = append(dst, Row{Addr: addr + slide, File: u.path(r.file, relative), Line: r.line})
	}
	return dst
}
