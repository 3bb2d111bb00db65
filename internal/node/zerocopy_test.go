//go:build !live

package node

import (
	"bytes"
	"errors"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// Ownership of datagram.Outgoing.Buffer: accepted means gone and zeroed, refused means
// still the caller's.

func fill(b []byte, seed int) []byte {
	for i := range b {
		b[i] = byte(i*31 + seed)
	}
	return bytes.Clone(b)
}

// A buffer stays that is refused by a check, or for congestion, which is later, when the message is
// made.
func TestRefusedBufferStays(t *testing.T) {
	bubble(t, newMemLab, func(t *testing.T, l *lab) {
		peer := l.Raw()
		s := l.bindOne(config.Node{})
		r := peer.Dial(s.LocalAddrPort().Addr())
		r.Put(rdstest.Congestion(9))
		rdstest.Eventually(t, "the map", func() bool { return rdstest.Counter(t, nodeOf(s), "cong_update_received") == 1 })
		to := rdstest.AddrOf(peer.Addr, 9)
		for _, size := range []int{100, 100_000} {
			m := s.AllocMessage(size)
			want := fill(m.Data, size)
			m.Data = m.Data[:size-10]
			rdstest.WantErr(t, "no destination", s.TrySendMessage(&datagram.Outgoing{Buffer: &m}), datagram.ErrNotConnected)
			k, err := s.TrySendBatch([]datagram.Outgoing{{Buffer: &m}})
			if rdstest.WantErr(t, "no destination, batch", err, datagram.ErrNotConnected); k != 0 {
				t.Errorf("%d were sent", k)
			}
			if err := s.TrySendMessage(&datagram.Outgoing{To: to, Buffer: &m}); !errors.Is(err, datagram.ErrCongested) {
				t.Fatal(err)
			}
			if k, err := s.TrySendBatch([]datagram.Outgoing{{To: to, Buffer: &m}}); k != 0 || !errors.Is(err, datagram.ErrCongested) {
				t.Fatal(k, err)
			}
			if halfOf(s).Account.Bytes() != 0 || halfOf(s).Account.Messages() != 0 {
				t.Errorf("%d bytes of %d messages charged", halfOf(s).Account.Bytes(), halfOf(s).Account.Messages())
			}
			m.Data = m.Data[:size]
			rdstest.Must(t, s.TrySendMessage(&datagram.Outgoing{To: s.LocalAddrPort(), Buffer: &m}))
			rdstest.Expect(t, s, string(want))
			rdstest.Eventually(t, "the acknowledgement", func() bool { return halfOf(s).Account.Messages() == 0 })
		}
	})
}

// A received message can be sent on as it is.
func TestForwardedMessage(t *testing.T) {
	bubble(t, newLoopLab, func(t *testing.T, l *lab) {
		a, b, c := l.bindOne(config.Node{}), l.bindOne(config.Node{}), l.bindOne(config.Node{})
		for _, size := range []int{0, 10, 5000, 9000, 20_000, 300_000, config.MaxMessage} {
			want := fill(make([]byte, size), size)
			// Two at once: small ones share memory on their way.
			rdstest.MustSend(t, a, b.LocalAddrPort(), want)
			rdstest.MustSend(t, a, b.LocalAddrPort(), want)
			for range 2 {
				m := rdstest.MustRecv(t, b)
				m.Data = m.Data[:size*2/3]
				rdstest.Must(t, b.SendMessage(rdstest.Background(t), &datagram.Outgoing{To: c.LocalAddrPort(), Buffer: &m}))
				if m.Data != nil {
					t.Error("still the caller's")
				}
			}
			for range 2 {
				rdstest.Expect(t, c, string(want[:size*2/3]))
			}
		}
	})
}

// Buffer memory that is not the pool's is copied.
func TestBufferWithForeignData(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		a, b := newLoopLab(t).pair(config.Node{})
		m := a.AllocMessage(10)
		own := fill(make([]byte, 50_000), 1)
		m.Data = own
		rdstest.Must(t, a.SendMessage(rdstest.Background(t), &datagram.Outgoing{To: b.LocalAddrPort(), Buffer: &m}))
		rdstest.Expect(t, b, string(own))
		plain := datagram.Message{Data: []byte("plain")}
		rdstest.Must(t, a.SendMessage(rdstest.Background(t), &datagram.Outgoing{To: b.LocalAddrPort(), Buffer: &plain}))
		rdstest.Expect(t, b, "plain")
	})
}

// A peer that is not there yet has the messages wait in the send buffer.
func TestSendCopiesItsPayload(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		for _, size := range []int{100, 100_000} {
			l := newLoopLab(t)
			a, to := l.bindOne(config.Node{}), rdstest.Nowhere()
			data := fill(make([]byte, size), 3)
			want := string(data)
			rdstest.MustSend(t, a, to, data)
			clear(data)
			if _, err := a.SendBatch(rdstest.Background(t), []datagram.Outgoing{{To: to, Data: data}}); err != nil {
				t.Fatal(err)
			}
			data[0] = 1
			b := l.bind(l.node(config.Node{}), to)
			rdstest.Expect(t, b, want)
			rdstest.Expect(t, b, string(make([]byte, size)))
		}
	})
}
