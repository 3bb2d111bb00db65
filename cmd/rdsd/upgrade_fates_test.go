//go:build live

package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
)

// An application is stopped while its messages are delivered, more than its completion ring
// has room for, and its daemon is upgraded twice before it goes on. The application then
// receives the fate of each message, once and in order.
func TestUpgradeOfAStoppedSender(t *testing.T) {
	t.Parallel()
	u := upgradesOf(t, "xrc")
	const n = 6000 // the completion ring has 4096 entries
	host := u.sides[0].addr.Addr().As4()
	host[3] = 77
	to := netip.AddrPortFrom(netip.AddrFrom4(host), 4000)
	from := netip.AddrPortFrom(u.sides[0].addr.Addr(), 4020)
	app := clitest.StartEnv(t, []string{fatesEnv + "=" + fmt.Sprintln(u.sides[0].path, from, to, n)}, os.Args[0])
	app.Line(app.Stdout, "sent")
	app.Signal(syscall.SIGSTOP)
	sock := bind(t, nodeOf(t, rds.Config{Port: uint16(u.port), Wire: rds.WireXRC}), to.String())
	ctx, cancel := context.WithTimeout(u.ctx, 30*time.Second)
	defer cancel()
	for i := range n {
		m, err := sock.Recv(ctx)
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		m.Release()
	}
	for range 2 {
		u.takeOver(u.sides[0])
	}
	app.Signal(syscall.SIGCONT)
	for i := range n {
		if line := app.Line(app.Stdout, "fate "); strings.TrimSpace(line) != fmt.Sprintf("fate %d %v", i, rds.StatusSuccess) {
			t.Fatalf("fate %d: %s", i, line)
		}
	}
}

// What waits for a host that is down, or for a port that is congested, waits in the
// successor, and is delivered once, in order and with Success when it can be.
func TestUpgradeWithWaitingMessages(t *testing.T) {
	t.Parallel()
	rdstest.EachWire(t, func(t *testing.T, wire rds.Wire) {
		u := upgradesOf(t, string(wire))
		from := u.ends[0]
		const n = 300
		host := u.sides[0].addr.Addr().As4()
		host[3] = 77
		to := netip.AddrPortFrom(netip.AddrFrom4(host), 4000)
		payload := func(i int) []byte { return bytes.Repeat([]byte{byte(i), byte(i >> 8)}, 32+i%100/99*9000) }
		for i := range n {
			must(t, from.messages.SendMessage(u.ctx, &rds.Outgoing{To: to, Data: payload(i), Notify: true, Token: uint64(i)}))
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
