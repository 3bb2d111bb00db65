package rds

import (
	"errors"
	"net/netip"
	"sync"
	"syscall"
	"testing"
)

func TestGetMRErrors(t *testing.T) {
	t.Parallel()
	eachRDMA(t, func(t *testing.T, l *lab, node func() *Node) {
		a, b := l.bind(node()), l.bind(node())
		one := []byte{1}
		for _, x := range []struct {
			name string
			call func() error
			want error
		}{
			{"nothing", func() error { _, err := a.GetMR(nil, 0); return err }, syscall.EINVAL},
			{"too much", func() error { _, err := a.GetMR(make([]byte, MaxMessage+1), 0); return err }, syscall.EMSGSIZE},
			{"an unknown flag", func() error { _, err := a.GetMR(one, 0x20); return err }, syscall.EINVAL},
			{"read-write and read-only", func() error { _, err := a.GetMR(one, MRReadWrite|MRReadOnly); return err }, syscall.EINVAL},
			{"no destination", func() error { _, err := a.GetMRForDest(netip.AddrPort{}, one, 0); return err }, syscall.EINVAL},
			{"no key", func() error { return a.FreeMR(1, 0) }, syscall.EINVAL},
			{"unknown flag of FreeMR", func() error { return a.FreeMR(0, 0x20) }, syscall.EINVAL},
			{"no memory", func() error { _, err := a.AllocMemory(0); return err }, syscall.EINVAL},
		} {
			wantErr(t, x.name, x.call(), x.want)
		}
		c := mustGetMR(t, b, one, 0)
		wantErr(t, "another socket's", a.FreeMR(c, 0), ErrInvalid) // MR-REQ-30
		if err := b.FreeMR(c, 0); err != nil {
			t.Error(err)
		}
		wantErr(t, "twice", b.FreeMR(c, MRInvalidate), ErrInvalid)
		if err := b.FreeMR(0, 0); err != nil {
			t.Error(err)
		}
		if m, err := a.AllocMemory(9); err != nil || len(m.B) != 9 {
			t.Errorf("%d bytes, %v", len(m.B), err)
		} else {
			m.Release()
			m.Release()
		}
		if c.Key() == 0 || makeCookie(c.Key(), c.Offset()) != c {
			t.Errorf("cookie %#x", c)
		}
	})
}

// No connection, and no peer, is needed to expose memory.
func TestMRREQ7GetMRNeedsNoConnection(t *testing.T) {
	t.Parallel()
	l, n := newOpLab(t)
	s := l.bind(n.node(l, Config{}))
	if err := s.FreeMR(mustGetMR(t, s, make([]byte, 10), 0), MRInvalidate); err != nil {
		t.Error(err)
	}
	if got := connections(t, nodeOf(s)); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

// FreeMR ends access, at once; with MRInvalidate, given to either call, the
// memory is unpinned, that of regions freed before included.
func TestMRREQ11FreeMR(t *testing.T) {
	t.Parallel()
	eachRDMA(t, func(t *testing.T, l *lab, node func() *Node) {
		a, b := l.bind(node()), l.bind(node())
		dev, _, err := nodeOf(b).regions()
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range []struct {
			name      string
			get, free MRFlags
			flushed   bool
		}{
			{"lazy", 0, 0, false},
			{"invalidate", 0, MRInvalidate, true},
			{"invalidate, as said before", MRInvalidate, 0, true},
		} {
			before := dev.Stats().Invalidations
			lazy := mustGetMR(t, b, make([]byte, 100), 0)
			c := mustGetMR(t, b, make([]byte, 100), x.get)
			operate(t, a, b, 1, Outgoing{RDMA: write(c, 1)})
			expect(t, b, "")
			wantStatus(t, a, 1, StatusSuccess)
			for _, err := range []error{b.FreeMR(lazy, 0), b.FreeMR(c, x.free)} {
				if err != nil {
					t.Error(err)
				}
			}
			operate(t, a, b, 2, Outgoing{RDMA: write(c, 2)})
			wantStatus(t, a, 2, StatusRemoteError)
			if pinned := halfOf(b).exposed.owner.Pinned(); (pinned == 0) != x.flushed {
				t.Errorf("%s: %d bytes pinned, %d invalidations before, %d now", x.name, pinned, before, dev.Stats().Invalidations)
			}
			if err := b.FreeMR(0, MRInvalidate); err != nil {
				t.Error(err)
			}
			if pinned := halfOf(b).exposed.owner.Pinned(); pinned != 0 {
				t.Errorf("%s: %d bytes pinned after a barrier", x.name, pinned)
			}
		}
	})
}

// A region for one host is no other's.
func TestGetMRForDest(t *testing.T) {
	t.Parallel()
	eachRDMA(t, func(t *testing.T, l *lab, node func() *Node) {
		a, b := l.bind(node()), l.bind(node())
		other := l.bind(node())
		c, err := b.GetMRForDest(a.LocalAddrPort(), make([]byte, 10), MRUseOnce)
		if err != nil {
			t.Fatal(err)
		}
		operate(t, other, b, 1, Outgoing{RDMA: write(c, 1)})
		wantStatus(t, other, 1, StatusRemoteError)
		// A read that fails has a message behind it, which names the key all the same.
		operate(t, other, b, 2, Outgoing{Data: []byte("names it"), RDMA: &RDMA{Cookie: c, Local: [][]byte{{0}}}})
		expect(t, b, "names it")
		wantStatus(t, other, 2, StatusRemoteError)
		operate(t, a, b, 3, Outgoing{Data: []byte("uses it"), RDMA: write(c, 3)})
		expect(t, b, "uses it")
		wantStatus(t, a, 3, StatusSuccess)
	})
}

// The message behind the operation that has used a region for one use ends it,
// before it can be received; an operation that failed does not.
func TestMRREQ33UseOnce(t *testing.T) {
	t.Parallel()
	eachRDMA(t, func(t *testing.T, l *lab, node func() *Node) {
		for _, flags := range []MRFlags{MRUseOnce, MRUseOnce | MRInvalidate} {
			a, b := l.bind(node()), l.bind(node())
			mem := make([]byte, 10)
			c := mustGetMR(t, b, mem, flags)
			beside := l.bind(nodeOf(b), addrOf(b.LocalAddrPort().Addr(), 4001))

			operate(t, a, b, 1, Outgoing{RDMA: &RDMA{Cookie: c, Offset: 5, Local: [][]byte{make([]byte, 6)}, Write: true}})
			wantStatus(t, a, 1, StatusRemoteError)
			operate(t, a, b, 2, Outgoing{RDMA: &RDMA{Cookie: c, Local: [][]byte{{2}}, Write: true, Silent: true}}) // no message
			wantStatus(t, a, 2, StatusSuccess)
			operate(t, a, beside, 3, Outgoing{RDMA: write(c, 3), Data: []byte("another socket's")})
			expect(t, beside, "another socket's")
			wantStatus(t, a, 3, StatusSuccess)
			operate(t, a, b, 4, Outgoing{RDMA: write(c, 4), Data: []byte("once")})
			expect(t, b, "once")
			if mem[0] != 4 {
				t.Errorf("the region holds %d", mem[0])
			}
			if pinned := halfOf(b).exposed.owner.Pinned(); flags&MRInvalidate == 0 && pinned > 10 {
				t.Errorf("%d bytes pinned", pinned)
			}
			wantErr(t, "FreeMR", b.FreeMR(c, 0), ErrInvalid)
			wantStatus(t, a, 4, StatusSuccess)
			operate(t, a, b, 5, Outgoing{RDMA: write(c, 5)})
			wantStatus(t, a, 5, StatusRemoteError)
			if mem[0] != 4 {
				t.Errorf("the region holds %d after its end", mem[0])
			}
			many := mustGetMR(t, b, mem, 0) // a region for more than one use stays
			for i := range byte(3) {
				operate(t, a, b, 6, Outgoing{RDMA: write(many, i), Data: []byte("many")})
				expect(t, b, "many")
				wantStatus(t, a, 6, StatusSuccess)
			}
		}
	})
}

// A key that was offered arrives with the message, in every way to receive.
func TestDestRoundTrip(t *testing.T) {
	t.Parallel()
	eachRDMA(t, func(t *testing.T, l *lab, node func() *Node) {
		a, b := l.bind(node()), l.bind(node())
		mem := make([]byte, 100)
		c := mustGetMR(t, a, mem[30:], 0)
		send := func(text string, dest bool) {
			t.Helper()
			if err := a.SendMessage(background(t), &Outgoing{To: b.LocalAddrPort(), Data: []byte(text), HasDest: dest, Dest: c * Cookie(btoi(dest))}); err != nil {
				t.Fatal(err)
			}
		}
		want := func(m *Message, text string, dest bool) {
			t.Helper()
			if string(m.Data) != text || m.HasDest != dest || m.Dest != c*Cookie(btoi(dest)) {
				t.Errorf("%q, %v %#x; want %q, %v", m.Data, m.HasDest, m.Dest, text, dest)
			}
			m.Release()
		}
		send("plain", false)
		send("dest", true)
		send("dest again", true)
		send("plain again", false)
		m := mustRecv(t, b)
		want(&m, "plain", false)
		eventually(t, "all", func() bool { return halfOf(b).q.count.Load()-int64(halfOf(b).q.unpublished()) == 3 })
		room := make([]byte, 100)
		for range 2 { // a peek leaves it
			k, m, err := b.ReadMessage(room, Peek)
			if err != nil {
				t.Fatal(err)
			}
			m.Data = room[:k]
			want(&m, "dest", true)
		}
		ms := make([]Message, 8)
		k, err := b.TryRecvBatch(ms)
		if k != 3 || err != nil {
			t.Fatal(k, err)
		}
		want(&ms[0], "dest", true)
		want(&ms[1], "dest again", true)
		want(&ms[2], "plain again", false)

		// The receiver uses what it was offered.
		operate(t, b, a, 1, Outgoing{RDMA: &RDMA{Cookie: c, Local: [][]byte{[]byte("answer")}, Write: true}, Data: []byte("done")})
		expect(t, a, "done")
		if string(mem[30:36]) != "answer" {
			t.Errorf("%q", mem[30:36])
		}
		if err := a.FreeMR(c, 0); err != nil {
			t.Fatal(err)
		}
		wantErr(t, "a cookie that has ended", a.SendMessage(background(t), &Outgoing{To: b.LocalAddrPort(), HasDest: true, Dest: c}), ErrInvalid)
	})
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// When a port is free the regions of the socket that had it have ended, also where that
// one lingers: a message to its successor cannot come with a write into memory of both.
func TestRegionsEndBeforeThePortIsFree(t *testing.T) {
	t.Parallel()
	eachRDMA(t, func(t *testing.T, l *lab, node func() *Node) {
		a, b := l.bind(node()), l.bind(node())
		mem := lent(t, b, 8)
		c := mustGetMR(t, b, mem, 0)
		if !halfOf(b).shut() {
			t.Fatal("closed")
		}
		next, err := nodeOf(b).Bind(b.LocalAddrPort())
		if err != nil {
			t.Fatal(err)
		}
		operate(t, a, next, 1, Outgoing{Data: []byte("with"), RDMA: write(c, 1)})
		wantStatus(t, a, 1, StatusRemoteError)
		operate(t, a, next, 2, Outgoing{Data: []byte("without")})
		wantStatus(t, a, 2, StatusSuccess)
		expect(t, next, "without")
		if err := halfOf(b).finish(); err != nil {
			t.Error(err)
		}
		if mem[0] != 0 {
			t.Error("memory was written after its region had ended")
		}
	})
}

// Map exposes memory for one message, and leaves nothing if that is not accepted.
func TestMRREQ36MapIsUndoneWhenTheSendFails(t *testing.T) {
	t.Parallel()
	l, n := newOpLab(t)
	a, b := n.pair(l)
	mem := make([]byte, 10)
	o := Outgoing{To: b.LocalAddrPort(), Data: []byte("take it"), Map: &Map{Memory: mem, Flags: MRUseOnce}}
	wantErr(t, "before a connection", a.TrySendMessage(&o), ErrWouldBlock)
	if err := a.SendMessage(background(t), &o); err != nil {
		t.Fatal(err)
	}
	m := mustRecv(t, b)
	if !m.HasDest || m.Dest != o.Map.Cookie || m.Dest == 0 {
		t.Errorf("%#x arrived, %#x was mapped", m.Dest, o.Map.Cookie)
	}
	m.Release()
	operate(t, b, a, 1, Outgoing{RDMA: write(m.Dest, 7), Data: []byte("taken")})
	expect(t, a, "taken")
	if mem[0] != 7 {
		t.Error("nothing was written")
	}

	if err := a.SetWriteBuffer(1000); err != nil {
		t.Fatal(err)
	}
	n.set(func() { n.full = true })
	operate(t, a, b, 2, Outgoing{RDMA: write(m.Dest, 7), Data: make([]byte, 1000)}) // fills the send buffer
	failing := Outgoing{To: b.LocalAddrPort(), Data: []byte("no room"), Map: &Map{Memory: mem}}
	wantErr(t, "no room", a.TrySendMessage(&failing), ErrWouldBlock)
	if failing.Map.Cookie != 0 {
		t.Error("a cookie from a send that failed")
	}
	if keys := len(halfOf(a).exposed.keys); keys != 0 {
		t.Errorf("%d regions left", keys)
	}
	n.open()
	wantStatus(t, a, 2, StatusRemoteError)
}

// A pool that is used up is EAGAIN, and one socket cannot use it up alone.
func TestMRREQ38ExhaustedPool(t *testing.T) {
	t.Parallel()
	l, n := newOpLab(t)
	a, b := n.pair(l)
	hog, mem := a, make([]byte, MaxMessage)
	count := 0
	for {
		_, err := hog.GetMR(mem, 0)
		if err != nil {
			wantErr(t, "exhausted", err, ErrWouldBlock, syscall.EAGAIN)
			break
		}
		count++
	}
	if count < 1000 {
		t.Errorf("%d regions", count)
	}
	other := l.bind(nodeOf(a), addrOf(a.LocalAddrPort().Addr(), 4001))
	mustGetMR(t, other, mem, 0)
	mustGetMR(t, b, mem, 0)
}

// Regions come and go while peers use them, and while their sockets are closed:
// no placement is in memory that was taken back.
func TestRegionsUnderFire(t *testing.T) {
	t.Parallel()
	l, n := newOpLab(t)
	a, b := n.pair(l)
	addr := b.LocalAddrPort().Addr()
	var mu sync.Mutex
	var live Cookie
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			mu.Lock()
			c := live
			mu.Unlock()
			err := a.SendMessage(background(t), &Outgoing{To: b.LocalAddrPort(), RDMA: &RDMA{Cookie: c, Local: [][]byte{{0xff}}, Write: true, Silent: true}})
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	for i := range 200 {
		s := l.bind(nodeOf(b), addrOf(addr, uint16(5000+i)))
		mem := make([]byte, 1)
		c := mustGetMR(t, s, mem, 0)
		mu.Lock()
		live = c
		mu.Unlock()
		before := n.count()
		eventually(t, "an operation", func() bool { return n.count() > before })
		var err error
		if i%2 == 0 {
			err = s.FreeMR(c, MRInvalidate)
		} else {
			err = s.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		mem[0] = 1 // the race detector looks on
		if i%2 == 0 {
			_ = s.Close()
		}
	}
	close(stop)
	wg.Wait()
	if errors.Is(nodeOf(a).Close(), ErrBusy) {
		t.Error("memory in use at the end")
	}
}
