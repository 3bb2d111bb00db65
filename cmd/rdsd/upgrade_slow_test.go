//go:build live

package main

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
)

// An application that receives nothing while its daemon is upgraded finds all afterwards, in
// order: messages and fates, what a congested port has kept back at the sender, and what it
// had received before and not released, of a socket that it has closed, too. Its memory is
// free again when it has released that.
func TestUpgradeUnderSlowApplications(t *testing.T) {
	t.Parallel()
	for name, buffer := range map[string]int{"a full queue": rds.DefaultBuffer, "a congested port": 256 << 10} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upgradeUnderSlowApplications(t, buffer)
		})
	}
}

// slowPayload is message i, which may be too long for a slot.
func slowPayload(i int) []byte {
	size := 600
	if i%1000 == 999 {
		size = 30_000
	}
	b := bytes.Repeat([]byte{byte(i), byte(i >> 8)}, size/2)
	binary.BigEndian.PutUint64(b, uint64(i))
	return b
}

// upgradeUnderSlowApplications is the test with a receive buffer: what exceeds that waits
// at the sender, in its daemon or its program.
func upgradeUnderSlowApplications(t *testing.T, buffer int) {
	u := upgradesOf(t, "xrc")
	from, to := u.ends[0], u.ends[1]
	const n = 6000 // more than a ring holds
	gone, err := to.client.Bind(netip.AddrPortFrom(to.messages.LocalAddrPort().Addr(), 4009))
	must(t, err)
	must(t, to.messages.SetReadBuffer(buffer))
	var kept []rds.Message
	for i := range 20 {
		for _, s := range []*rds.Socket{gone, to.messages} {
			must(t, from.messages.Send(u.ctx, s.LocalAddrPort(), slowPayload(i)))
			m, err := s.Recv(u.ctx)
			must(t, err)
			kept = append(kept, m)
		}
	}
	must(t, gone.Close())
	var sent atomic.Int64
	u.work.Go(func() {
		for i := range n {
			if err := from.messages.SendMessage(u.ctx, &rds.Outgoing{To: from.to, Data: slowPayload(i), Notify: true, Token: uint64(i)}); err != nil {
				t.Errorf("send %d: %v", i, err)
				return
			}
			sent.Store(int64(i + 1))
		}
	})
	for was := int64(-1); was != sent.Load() && was < n; { // until it has sent all, or waits
		was = sent.Load()
		<-time.After(200 * time.Millisecond)
	}
	if got := sent.Load(); (got < n) != (buffer < rds.DefaultBuffer) {
		t.Errorf("%d messages are sent", got)
	}
	for range 2 {
		for _, s := range u.sides {
			u.takeOver(s)
		}
	}
	for i := range n {
		m, err := to.messages.Recv(u.ctx)
		must(t, err)
		if want := slowPayload(i); m.Kind != rds.KindData || !bytes.Equal(m.Data, want) {
			t.Fatalf("message %d: %d bytes, number %d", i, len(m.Data), binary.BigEndian.Uint64(m.Data))
		}
		m.Release()
		f, err := from.messages.Recv(u.ctx)
		if err != nil || f.Kind != rds.KindStatus || f.Token != uint64(i) || f.Status != rds.StatusSuccess {
			t.Fatalf("fate %d: %v of %d, %v", i, f.Status, f.Token, err)
		}
	}
	u.work.Wait()
	for i := range kept {
		if !bytes.Equal(kept[i].Data, slowPayload(i/2)) {
			t.Errorf("a message that was kept has changed: %d", i)
		}
		kept[i].Release()
	}
	rdstest.Eventually(t, "the return of what was lent, but for slabs in use", func() bool {
		// What is released is announced with what is sent, or when it is needed.
		must(t, rdstest.Converse(u.ctx, to.messages, from.messages, 1))
		return rdstest.Report(t, to.client).Sessions[0].ReceiveLent <= 256<<10
	})
}
