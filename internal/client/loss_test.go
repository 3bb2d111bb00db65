package client

import (
	"errors"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// The end of a daemon is told between what it has brought and what the next one brings, to who
// receives one by one and to who receives many, and what earlier daemons have brought is no
// concern of the next one, whenever it is taken.
func TestLossIsToldInItsPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, many := range []bool{false, true} {
			d, s, far := newAttached(t)
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
					if err := rdstest.Verify(ms[i].Data, next+uint64(i)); err != nil {
						t.Fatal(err)
					}
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
				if err != nil {
					t.Fatal(err)
				}
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
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, s, far := newAttached(t)
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

// startBound starts a daemon, to which a socket is bound then.
func startBound(t *testing.T, d *restarted, s *socket.Socket) {
	t.Helper()
	d.start()
	rdstest.Eventually(t, "the socket to be bound", func() bool { return clientHalfOf(s).half.Load() != nil })
}

// newAttached is a socket that attaches again, and one of another host.
func newAttached(t *testing.T) (d *restarted, s, far *socket.Socket) {
	t.Helper()
	l := newLoopLab(t)
	d, far = newRestarted(t, l), l.bindOne(config.Node{})
	return d, bound(t, d.client(true), rdstest.AddrOf(rdstest.NewAddr(), 100)), far
}

// A daemon that ends while its socket is about to be put to use has its loss told behind what it
// has brought, and the socket waits for the next one.
func TestDaemonEndsBeforeItsSocketIsUsed(t *testing.T) {
	t.Parallel()
	d, s, far := newAttached(t)
	half := clientHalfOf(s)
	d.stop()
	rdstest.Eventually(t, "the loss", func() bool { return half.Begun() == 1 })
	release := rdstest.Hold(&half.Queue.TakeMu) // use waits
	d.start()
	var att *attachment
	rdstest.Eventually(t, "the attachment", func() bool { att, _ = half.c.current(); return att != nil })
	for i := uint64(0); ; i++ { // those that come before the daemon has bound its half are refused
		rdstest.MustSend(t, far, s.LocalAddrPort(), rdstest.Payload(i, 100))
		att.sockMu.Lock()
		n := len(att.early)
		att.sockMu.Unlock()
		if n > 0 {
			break
		}
		runtime.Gosched()
	}
	d.stop()
	<-att.gone
	release()
	rdstest.Eventually(t, "the loss", func() bool { return half.Begun() >= 2 && half.half.Load() == nil })
	var last error
	messages := 0
	rdstest.Eventually(t, "a message, and the loss behind it", func() bool {
		m, err := s.TryRecv()
		if err == nil {
			messages++
			m.Release()
		}
		if !errors.Is(err, datagram.ErrWouldBlock) {
			last = err
		}
		return messages > 0 && errors.Is(last, datagram.ErrDaemonLost)
	})
	startBound(t, d, s)
	rdstest.MustSend(t, far, s.LocalAddrPort(), rdstest.Payload(7, 100))
	rdstest.Eventually(t, "a message of the next daemon", func() bool {
		m, err := s.TryRecv()
		if err != nil {
			return false
		}
		defer m.Release()
		return rdstest.Verify(m.Data, 7) == nil
	})
	if n := half.half.Load().cell.TakenMessages.Load(); n != 1 {
		t.Errorf("%d messages are taken of 1", n)
	}
}
