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
	request [numberSize]byte
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
	for i := range outstanding {
		if err := f.ask(ctx, i); err != nil {
			return err
		}
	}
	for i := range blocks {
		if err := f.take(ctx, i); err != nil {
			return err
		}
		if next := i + outstanding; next < blocks {
			if err := f.ask(ctx, next); err != nil {
				return err
			}
		}
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

// ask sends the i-th request.
func (f *fetcher) ask(ctx context.Context, i int) error {
	slot := i % len(f.cookies)
	binary.LittleEndian.PutUint64(f.request[:], number(i, len(f.cookies)))
	return f.s.SendMessage(ctx, &rds.Outgoing{To: f.server, Data: f.request[:], HasDest: true, Dest: f.cookies[slot]})
}

// take waits for the i-th reply and verifies its block.
func (f *fetcher) take(ctx context.Context, i int) error {
	if err := f.s.SetReadDeadline(time.Now().Add(answerLimit)); err != nil {
		return err
	}
	m, err := f.s.Recv(ctx)
	if err != nil {
		return err
	}
	defer m.Release()
	n := number(i, len(f.cookies))
	if len(m.Data) != numberSize || binary.LittleEndian.Uint64(m.Data) != n {
		return fmt.Errorf("reply %d is %v, not block %d", i, &m, n)
	}
	if !bytes.Equal(f.buffer(i%len(f.cookies)), f.want[n*blockSize:][:blockSize]) {
		return fmt.Errorf("block %d is not what it should be", n)
	}
	return nil
}
