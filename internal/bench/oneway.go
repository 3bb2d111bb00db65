package bench

import (
	"context"
	"net/netip"
	"time"

	"github.com/rds-go/rds/rds"
)

// burstBytes is what a sender sends between two looks at the clock.
const burstBytes = 64 << 10

// burster sends messages first to first+n-1.
type burster interface {
	burst(first uint64, n int) error
	flush() error
}

// singleSender sends each message with a call of its own.
type singleSender struct {
	s   *rds.Socket
	out rds.Outgoing
}

func (b *singleSender) burst(first uint64, n int) error {
	for i := range n {
		putNumber(b.out.Data, first+uint64(i))
		if _, err := b.s.WriteToAddrPort(b.out.Data, b.out.To); err != nil {
			return err
		}
	}
	return nil
}

func (b *singleSender) flush() error { return nil }

// batchSender sends batches, each message from a buffer of its own; without a
// copy if zeroCopy is set: then each is a fresh buffer of the stack, whose
// number is written and whose rest is left as it is.
type batchSender struct {
	s        *rds.Socket
	out      []rds.Outgoing
	msgs     []rds.Message
	size     int
	zeroCopy bool
}

func newBatchSender(s *rds.Socket, w *Work, to netip.AddrPort) *batchSender {
	b := &batchSender{s: s, size: w.Size, zeroCopy: w.ZeroCopy}
	b.out = make([]rds.Outgoing, w.Batch)
	b.msgs = make([]rds.Message, w.Batch)
	for i := range b.out {
		b.out[i].To = to
		if w.ZeroCopy {
			b.out[i].Buffer = &b.msgs[i]
		} else {
			b.out[i].Data = make([]byte, w.Size)
		}
	}
	return b
}

func (b *batchSender) burst(first uint64, n int) error {
	for n > 0 {
		k := min(n, len(b.out))
		for i := range k {
			data := b.out[i].Data
			if b.zeroCopy {
				b.msgs[i] = b.s.AllocMessage(b.size)
				data = b.msgs[i].Data
			}
			putNumber(data, first+uint64(i))
		}
		if _, err := b.s.SendBatch(context.Background(), b.out[:k]); err != nil {
			for i := range k {
				b.msgs[i].Release()
			}
			return err
		}
		first += uint64(k)
		n -= k
	}
	return nil
}

func (b *batchSender) flush() error { return nil }

// streamSender is the baseline: bufio makes one write of 64 KiB.
type streamSender struct {
	s   *stream
	buf []byte
}

func (b *streamSender) burst(first uint64, n int) error {
	for i := range n {
		putNumber(b.buf, first+uint64(i))
		if err := b.s.send(b.buf); err != nil {
			return err
		}
	}
	return nil
}

func (b *streamSender) flush() error { return b.s.flush() }

// oneWay sends as fast as the transport takes it and is done when the receiver
// has confirmed the count.
func (c *cell) oneWay() (Result, error) {
	var b burster
	conns := func() int { return 1 }
	if c.transport == TCP {
		s, end, err := c.dial()
		if err != nil {
			return Result{}, err
		}
		defer end()
		b = &streamSender{s, make([]byte, c.work.Size)}
	} else if c.work.Kind == RDMA {
		v, end, err := c.newVerbsBurster()
		if err != nil {
			return Result{}, err
		}
		defer end()
		b = v
	} else {
		s, end, err := c.bind()
		if err != nil {
			return Result{}, err
		}
		defer end()
		conns = c.rdsConns
		if c.work.Batch > 1 || c.work.ZeroCopy {
			b = newBatchSender(s, c.work, c.addrs[0])
		} else {
			b = &singleSender{s, rds.Outgoing{To: c.addrs[0], Data: make([]byte, c.work.Size)}}
		}
	}
	sent, first, err := c.bursts(b, 0, c.opts.Warmup)
	if err != nil {
		return Result{}, err
	}
	m := c.beginAt(first)
	all, last, err := c.bursts(b, sent, c.opts.Duration)
	if err != nil {
		return Result{}, err
	}
	elapsed := time.Since(m.start)
	res := m.result(elapsed, c.cpu()-m.cpu, last, all-sent, c.work.Size)
	res.TCPConns = conns()
	return res, nil
}

// bursts sends for d, at least once, waits for the confirmation and returns the number of the
// next message and the server's state.
func (c *cell) bursts(b burster, n uint64, d time.Duration) (uint64, snapshot, error) {
	per := max(1, burstBytes/max(c.work.Size, 1))
	per = min((per+c.work.Batch-1)/c.work.Batch*c.work.Batch, 4096)
	for start, first := time.Now(), n; n == first || time.Since(start) < d && !c.interrupted(); {
		if err := b.burst(n, per); err != nil {
			return n, snapshot{}, err
		}
		n += uint64(per)
	}
	if err := b.flush(); err != nil {
		return n, snapshot{}, err
	}
	q := request{Op: opConfirm, Count: n}
	if c.transport != TCP && c.work.Op == OpWrite { // the server's program does not hear of Writes
		q = request{Op: opSnap}
	}
	snap, err := c.ask(q)
	return n, snap, err
}
