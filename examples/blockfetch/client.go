package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"

	"github.com/rds-go/rds/rds"
)

// answerLimit is how long the client waits for an answer.
const answerLimit = 10 * time.Second

// fetcher keeps a number of requests under way, each with a buffer of its own.
// Replies come in the order of the requests: one server, one connection.
type fetcher struct {
	s       *rds.Socket
	server  netip.AddrPort
	buffers []byte // exposed, one after the other
	cookies []rds.Cookie
	want    []byte // the store, to compare with

	out     [batch]rds.Outgoing
	numbers [batch][numberSize]byte // in out
	in      [batch]rds.Message
}

// fetch reads so many blocks, with so many requests outstanding, and verifies
// every byte.
func fetch(ctx context.Context, s *rds.Socket, server netip.AddrPort, blocks, outstanding int) error {
	f := &fetcher{s: s, server: server, want: make([]byte, storeBlocks*blockSize)}
	for n := range uint64(storeBlocks) {
		fillBlock(f.want[n*blockSize:][:blockSize], n)
	}
	memory, err := s.AllocMemory(outstanding * blockSize)
	if err != nil {
		return err
	}
	defer memory.Release()
	f.buffers = memory.B
	for i := range outstanding {
		c, err := s.GetMR(f.buffer(i), rds.MRReadWrite)
		if err != nil {
			return err
		}
		// When this returns nobody writes to the buffer any more.
		defer s.FreeMR(c, rds.MRInvalidate)
		f.cookies = append(f.cookies, c)
	}
	for asked, taken := 0, 0; taken < blocks; {
		for asked < min(blocks, taken+outstanding) {
			n := min(blocks, taken+outstanding, asked+batch) - asked
			if err := f.ask(ctx, asked, n); err != nil {
				return err
			}
			asked += n
		}
		n, err := f.take(ctx, taken)
		if err != nil {
			return err
		}
		taken += n
	}
	return nil
}

func (f *fetcher) buffer(i int) []byte {
	at := i * blockSize
	return f.buffers[at : at+blockSize : at+blockSize]
}

// number is the block that the i-th request asks for. One buffer never has the
// same block twice in a row.
func number(i, outstanding int) uint64 { return uint64(i+i/outstanding) % storeBlocks }

// ask sends n requests, the i-th and those that follow it.
func (f *fetcher) ask(ctx context.Context, i, n int) error {
	for k := range n {
		binary.LittleEndian.PutUint64(f.numbers[k][:], number(i+k, len(f.cookies)))
		f.out[k] = rds.Outgoing{To: f.server, Data: f.numbers[k][:], HasDest: true, Dest: f.cookies[(i+k)%len(f.cookies)]}
	}
	_, err := f.s.SendBatch(ctx, f.out[:n])
	return err
}

// take waits for the i-th reply, verifies its block and those of the replies that
// have come behind it, and returns how many they are.
func (f *fetcher) take(ctx context.Context, i int) (int, error) {
	if err := f.s.SetReadDeadline(time.Now().Add(answerLimit)); err != nil {
		return 0, err
	}
	n, err := f.s.RecvBatch(ctx, f.in[:])
	if err != nil {
		return 0, err
	}
	for k := range f.in[:n] {
		if e := f.verify(&f.in[k], i+k); e != nil && err == nil {
			err = e
		}
		f.in[k].Release()
	}
	return n, err
}

// verify checks the i-th reply and its block.
func (f *fetcher) verify(m *rds.Message, i int) error {
	n := number(i, len(f.cookies))
	if len(m.Data) != numberSize || binary.LittleEndian.Uint64(m.Data) != n {
		return fmt.Errorf("reply %d is %v, not block %d", i, m, n)
	}
	if !bytes.Equal(f.buffer(i%len(f.cookies)), f.want[n*blockSize:][:blockSize]) {
		return fmt.Errorf("block %d is not what it should be", n)
	}
	return nil
}
