//go:build live

package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
)

// fateful is an application that sends to a host, and takes the fates in order.
type fateful struct {
	*testing.T
	ctx        context.Context
	from       *rds.Socket
	to         netip.AddrPort
	sent, told uint64
}

func (f *fateful) send(o rds.Outgoing) {
	f.Helper()
	o.To, o.Notify, o.Token = f.to, true, f.sent
	must(f.T, f.from.SendMessage(f.ctx, &o))
	f.sent++
}

// fate takes the next fate, which has to be Success.
func (f *fateful) fate() {
	f.Helper()
	m, err := f.from.Recv(f.ctx)
	if err != nil || m.Kind != rds.KindStatus || m.Token != f.told || m.Status != rds.StatusSuccess {
		f.Fatalf("fate %d: %v of %d, %v", f.told, m.Status, m.Token, err)
	}
	f.told++
}

// Operations that wait for a host that is away wait in the successor. When the host is back
// each is done once, in order and with its message, and ends with Success.
func TestUpgradeWithWaitingOperations(t *testing.T) {
	t.Parallel()
	u := upgradesOf(t, "xrc")
	host := u.sides[0].addr.Addr().As4()
	host[3] = 77
	to := netip.AddrPortFrom(netip.AddrFrom4(host), 4000)
	node := nodeOf(t, rds.Config{Port: uint16(u.port), Wire: rds.WireXRC})
	sock, err := node.Bind(to)
	must(t, err)
	const n, block = 40, 64
	there, err := sock.AllocMemory(8 + n*block)
	must(t, err)
	cookie, err := sock.GetMR(there.B, rds.MRReadWrite)
	must(t, err)
	ctx, cancel := context.WithTimeout(u.ctx, 40*time.Second)
	defer cancel()
	app := &fateful{T: t, ctx: ctx, from: u.ends[0].operator, to: to}
	memory, err := app.from.AllocMemory(2 * n * block)
	must(t, err)
	out, in := memory.B[:n*block], memory.B[n*block:]
	for i := range out {
		out[i] = byte(i%251 + 1)
	}
	app.send(rds.Outgoing{Atomic: &rds.Atomic{Cookie: cookie, Kind: rds.FetchAdd, Add: 1000, Silent: true}})
	app.fate() // the daemon knows that the host takes operations

	left, err := node.Bequeath(ctx) // ends the links, and takes none
	must(t, err)
	left.Close()
	found := make([]uint64, n)
	for i := range n {
		off, piece, half := uint64(8+i*block), out[i*block:(i+1)*block], block/2
		app.send(rds.Outgoing{RDMA: &rds.RDMA{Cookie: cookie, Offset: off, Local: [][]byte{piece[:half], piece[half:]}, Write: true, Silent: true}})
		app.send(rds.Outgoing{Data: binary.BigEndian.AppendUint64(nil, uint64(i)), RDMA: &rds.RDMA{Cookie: cookie, Offset: off, Local: [][]byte{in[i*block : (i+1)*block]}, Fence: true}})
		app.send(rds.Outgoing{Atomic: &rds.Atomic{Cookie: cookie, Kind: rds.FetchAdd, Add: 1, Result: &found[i], Silent: true}})
	}
	rdstest.Eventually(t, "all messages in the daemon", func() bool { return len(rdstest.Report(t, u.ends[0].client).SendQueue) == 3*n })
	for range 3 {
		u.takeOver(u.sides[0])
	}
	node.Return()
	for i := range n {
		m, err := sock.Recv(ctx)
		if err != nil || binary.BigEndian.Uint64(m.Data) != uint64(i) {
			t.Fatalf("message %d: %v, %v\n%s", i, m.Data, err, u.sides[0].daemon.Stderr)
		}
		m.Release()
	}
	for range 3 * n {
		app.fate()
	}
	app.send(rds.Outgoing{Data: []byte("done")}) // before it comes, the host's own reads of there are not ordered behind the operations
	rdstest.Expect(t, sock, "done")
	for i, was := range found {
		if was != uint64(1000+i) {
			t.Errorf("addition %d found %d", i, was)
		}
	}
	if !bytes.Equal(there.B[8:], out) || !bytes.Equal(in, out) {
		t.Error("what is there, or was read, is not what was written")
	}
	if sum := binary.NativeEndian.Uint64(there.B); sum != 1000+n {
		t.Errorf("the sum is %d", sum)
	}
}

// Both daemons are upgraded at the same time, again and again, under load with RDMA: for each
// of them the other one is away for a while.
func TestUpgradesOfBothSides(t *testing.T) {
	t.Parallel()
	rdstest.EachWire(t, func(t *testing.T, wire rds.Wire) {
		u := upgradesOf(t, string(wire))
		u.load()
		u.traffic()
		for range upgradeTimes() {
			var was, next [2]*clitest.Process
			for i, s := range u.sides {
				was[i] = s.daemon
				next[i] = clitest.StartEnv(t, []string{"RDS_SOCKET=none", "RDS_CONTROL=none"}, bin.Path("rdsd"), append(u.args(s), "--takeover")...)
			}
			for i, s := range u.sides {
				next[i].Line(next[i].Stderr, "ready")
				if status := was[i].Wait(); status != 0 {
					t.Fatalf("the predecessor's status is %d: %s", status, was[i].Stderr)
				}
				u.sameGeneration(was[i])
				s.daemon = next[i]
			}
			u.traffic()
		}
		u.judge()
	})
}
