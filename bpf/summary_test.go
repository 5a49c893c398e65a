// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"
)

// TestTakeSingle: calls that come while a single table is read are in what is yielded then or later.
func TestTakeSingle(t *testing.T) {
	tables, err := NewTables([]Table{{KeyWords: 1, RowWords: 2, Single: true}, {RowWords: 3, Single: true}, {RowWords: 2}}, 4, 2, 1<<16)
	if err != nil {
		t.Fatal(err)
	}
	words := make([]uint64, tables.Size()/wordSize) // aligned as a map's memory is
	memory := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), tables.Size())
	single := &tables.tables[1]
	const calls = 200_000
	var sum [3]uint64
	var adding sync.WaitGroup
	for cpu := range 2 {
		row := words[(int(single.Offset)+cpu*int(single.Shard)+shardHeader+placeHeader)/wordSize:][:3]
		adding.Go(func() {
			for i := range calls {
				atomic.AddUint64(&row[i%3], 1)
			}
		})
	}
	take := func(half int) {
		tables.Take(memory, half)(func(table int, key []byte, row []uint64) bool {
			switch {
			case table == 0 || len(key) > 0:
				t.Errorf("table %d has a row of key %v", table, key)
			case table == 1:
				for i, n := range row {
					sum[i] += n
				}
			}
			return true
		})
	}
	for i := range 1000 {
		take(i % 2)
	}
	adding.Wait()
	take(1)
	if sum != [3]uint64{2 * ((calls + 2) / 3), 2 * ((calls + 1) / 3), 2 * (calls / 3)} {
		t.Errorf("%d calls were added up, want %d", sum, 2*calls)
	}
}

// TestTakeHalves: of what has two halves, one is yielded and cleared.
func TestTakeHalves(t *testing.T) {
	tables, err := NewTables([]Table{{KeyWords: 1, RowWords: 1, Single: true}, {RowWords: 2}}, 4, 1, 1<<16)
	if err != nil {
		t.Fatal(err)
	}
	memory := make([]byte, tables.Size())
	for half := range 2 {
		part := memory[half*tables.half:]
		keyed, plain := part[tables.tables[0].Offset:], part[tables.tables[1].Offset:]
		place := keyed[shardHeader+int(tables.tables[0].Place):] // the second one
		keyed[0], place[0] = 1, 7                                // one place is used; its state
		place[placeHeader], place[placeHeader+wordSize] = byte(10+half), byte(20+half)
		plain[shardHeader+placeHeader] = byte(30 + half)
	}
	take := func(half int) (got [3]uint64) {
		tables.Take(memory, half)(func(table int, key []byte, row []uint64) bool {
			if table == 0 {
				got[0], got[1] = uint64(key[0]), row[0]
			} else {
				got[2] = row[0]
			}
			return true
		})
		return got
	}
	for _, c := range []struct {
		half int
		want [3]uint64
	}{{1, [3]uint64{11, 21, 31}}, {1, [3]uint64{}}, {0, [3]uint64{10, 20, 30}}, {0, [3]uint64{}}} {
		if got := take(c.half); got != c.want {
			t.Errorf("half %d: %v, want %v", c.half, got, c.want)
		}
	}
}

// TestNewKeptStack: a place that is free, or being filled, has no stack.
func TestNewKeptStack(t *testing.T) {
	places := make([]engineKeptStack, 3)
	const filling = 1 // PLACE_FILLING of summary.h
	places[0] = engineKeptStack{Hash: filling, Count: 1}
	places[1] = engineKeptStack{Hash: hashUsed, Tgid: 7, Tid: 8, Count: 2, Address: [128]uint64{0x10, 0x20, 0x30}, Comm: [16]int8{'s', 'h'}}
	memory := unsafe.Slice((*byte)(unsafe.Pointer(&places[0])), len(places)*int(unsafe.Sizeof(places[0])))
	for number := range uint64(5) {
		s, ok := NewKeptStack(memory, number)
		want := KeptStack{}
		if number == 2 {
			want = KeptStack{PID: 7, TID: 8, Comm: [16]byte{'s', 'h'}, Addresses: []uint64{0x10, 0x20}}
		}
		if ok != (number == 2) || !reflect.DeepEqual(s, want) {
			t.Errorf("%d: %+v, %v", number, s, ok)
		}
	}
	if _, ok := NewKeptStack(nil, 1); ok {
		t.Error("there is a stack in no memory")
	}
}
