//go:build !live

package ipc

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"unsafe"
)

// fuzzMessage decodes, encodes, decodes and compares.
func fuzzMessage[T any](f *testing.F, seeds ...any) {
	for _, v := range seeds {
		b, err := json.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"id":1,"addr":"[fe80::1%eth0]:1","remote":"::ffff:192.0.2.1","data":"AA=="}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var v, again T
		if err := decode(b, maxFrame, &v); err != nil {
			return
		}
		out, err := json.Marshal(v)
		if err != nil {
			t.Fatalf("%q became %+v: %v", b, v, err)
		}
		if len(out) > maxFrame {
			return // escapes
		}
		if err := decode(out, maxFrame, &again); err != nil {
			t.Fatalf("%q became %q: %v", b, out, err)
		}
		if third, err := json.Marshal(again); err != nil || !bytes.Equal(out, third) {
			t.Fatalf("%q became %q, then %q (%v)", b, out, third, err)
		}
	})
}

func FuzzHello(f *testing.F) {
	fuzzMessage[Hello](f, Hello{Protocol: Protocol, Version: Version, Features: []string{"x", ""}})
}

func FuzzRequest(f *testing.F) {
	fuzzMessage[Request](f, Request{ID: 1<<64 - 1, Op: CallBind, Socket: 1<<32 - 1, Option: OptionTOS, Value: -1 << 63, Linger: -1})
}

func FuzzReply(f *testing.F) {
	fuzzMessage[Reply](f, Welcome{Session: 1, Errno: 13}, Reply{ID: 1, Socket: 2, Messages: -1, Data: []byte("x"), More: true})
}

// FuzzRingIndices lets the other side store what it likes. Whatever it is, what
// an end believes must lie within the ring and never run back.
func FuzzRingIndices(f *testing.F) {
	word := func(vs ...uint64) (b []byte) {
		for _, v := range vs {
			b = binary.LittleEndian.AppendUint64(b, v)
		}
		return b
	}
	f.Add(word(0, 1, 5, 8, 8, 16))
	f.Add(word(8, 9, 1<<63, 1<<64-1))
	f.Add(word(3, 2, 1, 0))
	f.Fuzz(func(t *testing.T, stores []byte) {
		const size = 8
		r, w := newHeapRing(size), newHeapRing(size)
		c, p := r.consumer(), w.producer()
		for ; len(stores) >= 8; stores = stores[8:] {
			v := binary.LittleEndian.Uint64(stores)

			r.tail.Store(v)
			head := c.Head()
			n, err := c.Refresh()
			if good := v-head <= size && v-head >= c.tail-head; err == nil != good {
				t.Fatalf("tail %d, head %d: %d, %v", v, head, n, err)
			}
			if err != nil && !errors.Is(err, ErrCorrupt) || n < 0 || n > size {
				t.Fatalf("%d ready, %v", n, err)
			}
			for i := range n {
				c.Peek(i)
			}
			c.Next(n / 2)
			c.Publish()

			w.head.Store(v)
			before, tail := p.Head(), p.Tail()
			n, err = p.Free(size + 1)
			if good := v-before <= tail-before; err == nil != good {
				t.Fatalf("head %d, tail %d, seen %d: %d, %v", v, tail, before, n, err)
			}
			if n < 0 || n > size || p.Tail()-p.Head() > size {
				t.Fatalf("%d free of %d", n, size)
			}
			for range n {
				p.Put(Entry{})
			}
			p.Publish()
		}
	})
}

// fakeSegment maps a segment that lies in ordinary memory.
func fakeSegment(size int) *Segment {
	words := make([]uint64, size/8)
	return &Segment{mem: unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), size)}
}

// FuzzFirstPage opens a segment whose first page says anything. What is let
// through has the areas it speaks of.
func FuzzFirstPage(f *testing.F) {
	l := Layout{Submissions: 1, Completions: 1, Sockets: 1, Data: 64 << 10, Send: ChunkSize, Receive: ChunkSize, Memory: ChunkSize}
	size := l.Size()
	s := fakeSegment(size)
	s.Layout = l
	s.format()
	f.Add(s.mem[:64])
	l.Receive *= 2
	s.Layout = l
	s.format()
	f.Add(s.mem[:64])
	big := fakeSegment(size) // one for all inputs: only its first words change
	f.Fuzz(func(t *testing.T, page []byte) {
		clear(big.mem[:pageSize])
		copy(big.mem[:pageSize], page)
		big.Layout = Layout{}
		err := big.parse()
		if err != nil {
			if !errors.Is(err, errLayout) {
				t.Fatal(err)
			}
			return
		}
		if big.validate() != nil || big.Size() != size {
			t.Fatalf("%+v passes for %d bytes", big.Layout, size)
		}
		for _, area := range [][]byte{big.DataArea(), big.SendArea(), big.ReceiveArea(), big.MemoryArea()} {
			area[0]++
			area[len(area)-1]++
		}
		big.Cell(big.Sockets - 1).FreedBytes.Add(1)
		for _, p := range []Producer{big.Submit(), big.Complete()} {
			for range p.slots {
				p.Put(Entry{})
			}
		}
		again := fakeSegment(pageSize)
		again.Layout = big.Layout
		again.format()
		if !reflect.DeepEqual(again.mem[:64], big.mem[:64]) {
			t.Fatalf("%x became %x", big.mem[:64], again.mem[:64])
		}
	})
}
