package main

import (
	"context"
	"encoding/binary"
	"sync"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
)

// A struct pingpong_dest of perftest, in which ends tell where memory is. Fields
// are big-endian:
//
//	0   4 lid          16  4 key
//	4   4 reads        20  4 nothing
//	8   4 queue pair   24  8 address
//	12  4 sequence     32 24 addresses of networks that iWARP has not
const (
	destLen  = 56
	destKey  = 16
	destAddr = 24
)

// control is the server's end of the first connection. The client sends and
// waits for an answer of the same length: its version, sizes, results, and a
// pingpong_dest whenever both wait for each other. It accepts a server that says
// what it said itself, but for where the server's memory is.
type control struct {
	end
	target   *iwarp.MR
	answered int

	mu   sync.Mutex // guards the fields below
	key  mr.Key     // the client's memory
	addr uint64
}

func newControl(dev *iwarp.Device, pd *iwarp.PD, target *iwarp.MR) (*control, error) {
	e, err := newEnd(dev, pd, 4, 256)
	return &control{end: e, target: target}, err
}

// run answers until the client is gone.
func (c *control) run(ctx context.Context) error {
	for {
		i, message, err := c.receive(ctx)
		if err != nil {
			if over(err) {
				err = nil
			}
			return err
		}
		if len(message) == destLen {
			c.learn(message)
			binary.BigEndian.PutUint32(message[destKey:], uint32(c.target.Key()))
			binary.BigEndian.PutUint64(message[destAddr:], c.target.Base())
		}
		_, err = c.qp.PostSend(iwarp.WorkRequest{Op: iwarp.OpSend, Inline: message})
		if err == nil {
			c.answered++
			err = c.post(i)
		}
		if err != nil {
			return err
		}
	}
}

// learn keeps what the client says of its memory.
func (c *control) learn(dest []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.key = mr.Key(binary.BigEndian.Uint32(dest[destKey:]))
	c.addr = binary.BigEndian.Uint64(dest[destAddr:])
}

// memory is where the client's is.
func (c *control) memory() (mr.Key, uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.key, c.addr
}
