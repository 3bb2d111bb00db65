package main

import (
	"context"
	"encoding/binary"
	"log"

	"github.com/rds-go/rds/rds"
)

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
	for {
		m, err := s.Recv(ctx)
		if err != nil {
			return err
		}
		if err := answer(ctx, s, &m, store.B); err != nil {
			if ctx.Err() != nil {
				return err
			}
			log.Printf("answer to %v: %v", m.From, err) // that asker's trouble, nobody else's
		}
		m.Release()
	}
}

// answer writes the block that m asks for where m offers memory, and says so.
func answer(ctx context.Context, s *rds.Socket, m *rds.Message, store []byte) error {
	if m.Kind != rds.KindData || !m.HasDest || len(m.Data) != numberSize {
		return nil // not a request
	}
	n := binary.LittleEndian.Uint64(m.Data) % storeBlocks
	return s.SendMessage(ctx, &rds.Outgoing{
		To:   m.From,
		Data: m.Data,
		RDMA: &rds.RDMA{Cookie: m.Dest, Local: [][]byte{store[n*blockSize:][:blockSize]}, Write: true},
	})
}
