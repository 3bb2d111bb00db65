package bench

import (
	"context"
	"errors"
	"net/netip"

	"github.com/rds-go/rds/rds"
)

// messenger is the client's end of what carries numbered messages of the work's size:
// one way, or each answered by itself.
type messenger interface {
	send(first uint64, n int) error // messages first to first+n-1
	flush() error                   // what was sent leaves
	recv(n uint64) error            // waits for message n, and checks it
}

// messenger opens the one of the cell's transport.
func (c *cell) messenger() (m messenger, end func(), err error) {
	switch {
	case c.transport == TCP:
		var s *stream
		s, end, err = c.dial()
		m = &streamEnd{s, make([]byte, c.work.Size)}
	case c.work.Kind == RDMA && !c.work.PingPong:
		m, end, err = c.newVerbsSender()
	case c.work.Kind == RDMA:
		m, end, err = c.newPingEnd()
	default:
		var s *rds.Socket
		s, end, err = c.bind()
		m = newRDSEnd(s, c.work, c.addrs[0])
	}
	return m, end, err
}

// rdsEnd is a socket. Messages are sent one by one, or in batches, each from a buffer of
// its own; without a copy if the work says so: then each is a fresh buffer of the stack,
// whose number is written and whose rest is left as it is.
type rdsEnd struct {
	s    *rds.Socket
	w    *Work
	out  []rds.Outgoing
	msgs []rds.Message
}

func newRDSEnd(s *rds.Socket, w *Work, to netip.AddrPort) *rdsEnd {
	e := &rdsEnd{s: s, w: w, out: make([]rds.Outgoing, w.Batch), msgs: make([]rds.Message, w.Batch)}
	for i := range e.out {
		e.out[i].To = to
		if w.ZeroCopy {
			e.out[i].Buffer = &e.msgs[i]
		} else {
			e.out[i].Data = make([]byte, w.Size)
		}
	}
	return e
}

func (e *rdsEnd) send(first uint64, n int) error {
	for n > 0 {
		k := min(n, len(e.out))
		for i := range k {
			data := e.out[i].Data
			if e.w.ZeroCopy {
				e.msgs[i] = e.s.AllocMessage(e.w.Size)
				data = e.msgs[i].Data
			}
			putNumber(data, first+uint64(i))
		}
		var err error
		if e.w.Batch > 1 || e.w.ZeroCopy {
			_, err = e.s.SendBatch(context.Background(), e.out[:k])
		} else {
			_, err = e.s.WriteToAddrPort(e.out[0].Data, e.out[0].To)
		}
		if err != nil {
			for i := range e.msgs[:k] {
				e.msgs[i].Release()
			}
			return err
		}
		first += uint64(k)
		n -= k
	}
	return nil
}

func (e *rdsEnd) flush() error { return nil }

func (e *rdsEnd) recv(n uint64) error {
	m, err := e.s.Recv(context.Background())
	if err != nil {
		return err
	}
	defer m.Release()
	return checkMessage(m.Data, e.w.Size, n)
}

// streamEnd is the baseline: bufio makes one write of 64 KiB.
type streamEnd struct {
	s   *stream
	buf []byte
}

func (e *streamEnd) send(first uint64, n int) error {
	for i := range n {
		putNumber(e.buf, first+uint64(i))
		if err := e.s.send(e.buf); err != nil {
			return err
		}
	}
	return nil
}

func (e *streamEnd) flush() error { return e.s.flush() }

func (e *streamEnd) recv(n uint64) error {
	m, err := e.s.recv()
	return errors.Join(err, checkMessage(m, len(e.buf), n))
}
