//go:build !live

package node

import (
	"net/netip"
	"testing"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
)

// The sums of what a socket's send buffer holds back are those of a full count over its
// peers, whichever are down, come up, go down or hold messages back.
func TestHeldIsWhatAFullCountFinds(t *testing.T) {
	bubble(t, newLoopLab, func(t *testing.T, l *lab) {
		sock := l.bindOne(config.Node{})
		s := halfOf(sock)
		check := func(what string, bytes, messages int) {
			t.Helper()
			rdstest.Eventually(t, what, func() bool { b, m := s.Account.Held(); return b == bytes && m == messages })
			s.shares.mu.Lock()
			defer s.shares.mu.Unlock()
			for p, h := range s.shares.of {
				b, m := h.Held()
				if p.Down.Load() && (b != h.Bytes() || m != h.Messages()) || !p.Down.Load() && m != 0 {
					t.Errorf("%s: %v holds %d bytes and %d messages", what, p.Remote, b, m)
				}
				bytes, messages = bytes-b, messages-m
			}
			if bytes != 0 || messages != 0 {
				t.Errorf("%s: the sums are %d bytes and %d messages above those of the peers", what, bytes, messages)
			}
		}
		const size = 1000
		send := func(to netip.AddrPort, n int) {
			t.Helper()
			for range n {
				rdstest.MustSend(t, sock, to, make([]byte, size))
			}
		}

		late, dead := rdstest.Nowhere(), rdstest.Nowhere()
		send(late, 3)
		send(dead, 2)
		check("two dead hosts", 5*size, 5)

		host := rdstest.NewAddr()
		n := l.node(config.Node{Addresses: []netip.Addr{host}})
		up := l.bind(n, netip.AddrPortFrom(host, 4000))
		rdstest.Promptly(t, sock, up, nil)
		p := s.last.Load()
		hold := func(on bool) {
			p.Lock()
			p.Core.Hold([]uint16{5000}, on)
			p.Commit()
		}
		hold(true)
		for range 4 {
			m := conn.Message{Sport: s.Port, Dport: 5000, Account: &s.Share(p).Account, Payload: make([]byte, size), Admitted: true}
			m.Account.Admit(size)
			p.Lock()
			_, err := p.Core.Enqueue(time.Now(), p.Core.PathFor(s.Port), &m)
			p.Commit()
			rdstest.Must(t, err)
		}
		check("a host that is up holds messages back, too", 9*size, 5)

		back := l.bind(l.node(config.Node{Addresses: []netip.Addr{late.Addr()}}), late)
		rdstest.Drop(t, back, 3)
		check("one host has come up", 6*size, 2)

		rdstest.Must(t, n.Close())
		check("the host that holds messages back is down", 6*size, 6)
		hold(false)
		check("it would hold nothing back any more", 6*size, 6)
		rdstest.NoError(t, sock.CancelSentTo(dead))
		check("messages were taken back", 4*size, 4)
		_ = sock.Close()
		check("the socket is closed", 0, 0)
	})
}
