//go:build !live

package client

import (
	"errors"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/datagram"
)

// The end of a daemon is told between what it has brought and what the next one brings, to who
// receives one by one and to who receives many, and what earlier daemons have brought is no
// concern of the next one, whenever it is taken.
func TestLossIsToldInItsPlace(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		for _, many := range []bool{false, true} {
			d, s, far := newAttached(t, l)
			const each = 3
			bring := func(daemon int) {
				t.Helper()
				for i := range each {
					rdstest.MustSend(t, far, s.LocalAddrPort(), rdstest.Payload(uint64(daemon*each+i), 1000))
				}
				rdstest.Eventually(t, "the messages", func() bool { return clientHalfOf(s).Queue.Count.Load() == int64((daemon+1)*each) })
			}
			bring(0)
			for daemon := 1; daemon <= 2; daemon++ {
				d.stop()
				rdstest.Eventually(t, "the loss", func() bool { return clientHalfOf(s).Begun() == uint64(daemon) })
				startBound(t, d, s)
				bring(daemon)
			}
			take := func(next uint64) (n int, err error) {
				ms := make([]datagram.Message, 10)
				if many {
					n, err = s.TryRecvBatch(ms)
				} else if ms[0], err = s.TryRecv(); err == nil {
					n = 1
				}
				for i := range n {
					rdstest.Must(t, rdstest.Verify(ms[i].Data, next+uint64(i)))
					ms[i].Release()
				}
				return n, err
			}
			losses := 0
			for next := 0; next < 3*each; {
				n, err := take(uint64(next))
				if errors.Is(err, datagram.ErrDaemonLost) {
					if losses++; next != losses*each {
						t.Errorf("many %v: loss %d is told after %d messages", many, losses, next)
					}
					err = nil
				}
				rdstest.Must(t, err)
				next += n
			}
			_, err := take(0)
			rdstest.WantErr(t, "TryRecv", err, datagram.ErrWouldBlock)
			if losses != 2 {
				t.Errorf("%d losses are told of 2", losses)
			}
			if n := clientHalfOf(s).half.Load().cell.TakenMessages.Load(); n != each {
				t.Errorf("%d messages are taken of %d", n, each)
			}
		}
	})
}

// What an application takes after the end of a daemon and before it has another one is no
// concern of that: its receive buffer is empty.
func TestNextDaemonKnowsNothingOfWhatWasTakenBefore(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		d, s, far := newAttached(t, l)
		for i := range 5 {
			rdstest.MustSend(t, far, s.LocalAddrPort(), rdstest.Payload(uint64(i), 1000))
		}
		rdstest.Eventually(t, "the messages", func() bool { return clientHalfOf(s).Queue.Count.Load() == 5 })
		d.stop()
		rdstest.Eventually(t, "the loss", func() bool { return clientHalfOf(s).Begun() == 1 })
		for i := range 5 {
			rdstest.ExpectNumber(t, s, uint64(i))
		}
		_, err := s.TryRecv()
		rdstest.WantErr(t, "TryRecv", err, datagram.ErrDaemonLost)
		startBound(t, d, s)
		for i := range 5 {
			rdstest.MustSend(t, far, s.LocalAddrPort(), rdstest.Payload(uint64(i), 1000))
			rdstest.ExpectNumber(t, s, uint64(i))
		}
		_, err = s.TryRecv()
		rdstest.WantErr(t, "TryRecv", err, datagram.ErrWouldBlock)
		if n := clientHalfOf(s).half.Load().cell.TakenMessages.Load(); n != 5 {
			t.Errorf("%d messages are taken of 5", n)
		}
	})
}
