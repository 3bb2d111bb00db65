package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/rds"
)

// Operations that wait for a host that is away wait in the successor. When the host is back
// each is done once, in order and with its message, and ends with Success.
func TestUpgradeWithWaitingOperations(t *testing.T) {
	t.Parallel()
	u := upgradesOf(t, "xrc")
	host := u.sides[0].addr.Addr().As4()
	host[3] = 77
	to := netip.AddrPortFrom(netip.AddrFrom4(host), 4000)
	node, err := rds.NewNode(rds.Config{Port: uint16(u.port), Wire: rds.WireXRC})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = node.Close() })
	sock, err := node.Bind(to)
	if err != nil {
		t.Fatal(err)
	}
	const n, block = 40, 64
	there, err := sock.AllocMemory(8 + n*block)
	if err != nil {
		t.Fatal(err)
	}
	cookie, err := sock.GetMR(there.B, rds.MRReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(u.ctx, 40*time.Second)
	defer cancel()
	from := u.ends[0].operator
	memory, err := from.AllocMemory(2 * n * block)
	if err != nil {
		t.Fatal(err)
	}
	out, in := memory.B[:n*block], memory.B[n*block:]
	for i := range out {
		out[i] = byte(i%251 + 1)
	}
	piece := func(b []byte, i int) []byte { return b[i*block : (i+1)*block] }
	token := uint64(0)
	send := func(o rds.Outgoing) {
		t.Helper()
		o.To, o.Notify, o.Token = to, true, token
		if err := from.SendMessage(ctx, &o); err != nil {
			t.Fatal(err)
		}
		token++
	}
	told := uint64(0)
	fate := func() {
		t.Helper()
		f, err := from.Recv(ctx)
		if err != nil || f.Kind != rds.KindStatus || f.Token != told || f.Status != rds.StatusSuccess {
			t.Fatalf("fate %d: %v of %d, %v\n%s", told, f.Status, f.Token, err, u.sides[0].daemon.Stderr)
		}
		told++
	}
	send(rds.Outgoing{Atomic: &rds.Atomic{Cookie: cookie, Kind: rds.FetchAdd, Add: 1000, Silent: true}})
	fate() // the daemon knows that the host takes operations

	left, err := node.Bequeath(ctx) // ends the links, and takes none
	if err != nil {
		t.Fatal(err)
	}
	left.Close()
	found := make([]uint64, n)
	for i := range n {
		off := uint64(8 + i*block)
		send(rds.Outgoing{RDMA: &rds.RDMA{Cookie: cookie, Offset: off, Local: [][]byte{piece(out, i)[:block/2], piece(out, i)[block/2:]}, Write: true, Silent: true}})
		send(rds.Outgoing{Data: binary.BigEndian.AppendUint64(nil, uint64(i)), RDMA: &rds.RDMA{Cookie: cookie, Offset: off, Local: [][]byte{piece(in, i)}, Fence: true}})
		send(rds.Outgoing{Atomic: &rds.Atomic{Cookie: cookie, Kind: rds.FetchAdd, Add: 1, Result: &found[i], Silent: true}})
	}
	for {
		info, err := u.ends[0].client.Info()
		if err != nil {
			t.Fatal(err)
		}
		if len(info.SendQueue) == 3*n {
			break
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("%d messages wait in the daemon", len(info.SendQueue))
		}
	}
	for range 3 {
		was := u.sides[0].daemon
		u.startWith(u.sides[0], "--takeover")
		if status := was.Wait(); status != 0 {
			t.Fatalf("status %d: %s", status, was.Stderr)
		}
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
		fate()
	}
	send(rds.Outgoing{Data: []byte("done")}) // before it comes, the host's own reads of there are not ordered behind the operations
	if m, err := sock.Recv(ctx); err != nil || string(m.Data) != "done" {
		t.Fatalf("%q, %v", m.Data, err)
	}
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
	for _, wire := range []string{"xrc", "tcp"} {
		t.Run(wire, func(t *testing.T) {
			t.Parallel()
			u := upgradesOf(t, wire)
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
}
