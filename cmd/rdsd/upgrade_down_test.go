//go:build live

package main

import (
	"bytes"
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/rds-go/rds/rds"
)

// What waits for a host that is down, or for a port that is congested, waits in the
// successor, and is delivered once, in order and with Success when it can be.
func TestUpgradeWithWaitingMessages(t *testing.T) {
	t.Parallel()
	for _, wire := range []string{"xrc", "tcp"} {
		t.Run(wire, func(t *testing.T) {
			t.Parallel()
			u := upgradesOf(t, wire)
			from := u.ends[0]
			const n = 300
			host := u.sides[0].addr.Addr().As4()
			host[3] = 77
			to := netip.AddrPortFrom(netip.AddrFrom4(host), 4000)
			payload := func(i int) []byte { return bytes.Repeat([]byte{byte(i), byte(i >> 8)}, 32+i%100/99*9000) }
			for i := range n {
				if err := from.messages.SendMessage(u.ctx, &rds.Outgoing{To: to, Data: payload(i), Notify: true, Token: uint64(i)}); err != nil {
					t.Fatal(err)
				}
			}
			for range 3 {
				u.takeOver(u.sides[0])
			}
			// A node listens when it binds: a daemon would take messages before its application has bound.
			sock := bind(t, nodeOf(t, rds.Config{Port: uint16(u.port), Wire: rds.Wire(u.wire)}), to.String())
			ctx, cancel := context.WithTimeout(u.ctx, 30*time.Second)
			defer cancel()
			for i := range n {
				m, err := sock.Recv(ctx)
				if err != nil || !bytes.Equal(m.Data, payload(i)) {
					t.Fatalf("message %d: %v\n%s", i, err, u.sides[0].daemon.Stderr)
				}
				m.Release()
				f, err := from.messages.Recv(u.ctx)
				if err != nil || f.Token != uint64(i) || f.Status != rds.StatusSuccess {
					t.Fatalf("fate %d: %v of %d, %v", i, f.Status, f.Token, err)
				}
			}
			if m, err := sock.TryRecv(); err == nil {
				t.Errorf("one more message, of %d bytes", len(m.Data))
			}
		})
	}
}
