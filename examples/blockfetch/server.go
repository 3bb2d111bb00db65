package main

import (
	"context"
	"encoding/binary"
	"log"

	"github.com/rds-go/rds/rds"
)

// batch is how many requests, or answers, are taken and sent at a time, if so many
// are there.
const batch = 64

// server answers requests, as many at a time as have come.
type server struct {
	s     *rds.Socket
	store []byte
	in    [batch]rds.Message
	out   []rds.Outgoing
	ops   [batch]rds.RDMA
	local [batch][1][]byte
}

// serve answers requests for blocks until ctx ends.
func serve(ctx context.Context, s *rds.Socket) error {
	store, err := s.AllocMemory(storeBlocks * blockSize)
	if err != nil {
		return err
	}
	defer store.Release()
	// What is being written from the store ends with the socket.
	defer s.Close()
	for n := range uint64(storeBlocks) {
		fillBlock(store.B[n*blockSize:][:blockSize], n)
	}
	v := &server{s: s, store: store.B}
	for {
		if err := v.turn(ctx); err != nil {
			return err
		}
	}
}

// turn waits for requests and answers those that are there.
func (v *server) turn(ctx context.Context) error {
	n, err := v.s.RecvBatch(ctx, v.in[:])
	if err != nil {
		return err
	}
	v.out = v.out[:0]
	for i := range v.in[:n] {
		v.answer(&v.in[i])
	}
	for out := v.out; len(out) > 0; {
		sent, err := v.s.SendBatch(ctx, out)
		if out = out[sent:]; err == nil {
			continue
		}
		if ctx.Err() != nil {
			return err
		}
		log.Printf("answer to %v: %v", out[0].To, err) // that asker's trouble, nobody else's
		out = out[1:]
	}
	for i := range v.in[:n] {
		v.in[i].Release()
	}
	return nil
}

// answer adds what writes the block that m asks for where m offers memory, and says
// so.
func (v *server) answer(m *rds.Message) {
	if m.Kind != rds.KindData || !m.HasDest || len(m.Data) != numberSize {
		return // not a request
	}
	i, n := len(v.out), binary.LittleEndian.Uint64(m.Data)%storeBlocks
	v.local[i][0] = v.store[n*blockSize:][:blockSize]
	v.ops[i] = rds.RDMA{Cookie: m.Dest, Local: v.local[i][:], Write: true}
	v.out = append(v.out, rds.Outgoing{To: m.From, Data: m.Data, RDMA: &v.ops[i]})
}
