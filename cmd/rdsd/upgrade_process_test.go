//go:build live

package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
)

// upgrades is two daemons, an application at each, and load in both directions while the
// daemons are upgraded. The applications do not attach again: a session that ends ends
// the test.
type upgrades struct {
	restarts
	sides [2]*side
	ends  [2]*loadEnd

	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup
	stop   chan struct{}

	senders sync.WaitGroup // calls of loadEnd.send
}

// loadEnd is the application at one side.
type loadEnd struct {
	u        *upgrades
	client   *rds.Client
	messages *rds.Socket
	to       netip.AddrPort // the messages of the other side

	mu       sync.Mutex
	received map[uint64]int        // guarded by mu
	fates    map[uint64]rds.Status // guarded by mu
	again    int                   // guarded by mu; fates of messages that had one
	last     time.Time             // guarded by mu; when a message came
	gap      time.Duration         // guarded by mu; longest time without a message
	sent     atomic.Uint64

	regions  *rds.Socket // has the exposed memory
	memory   *rds.Memory
	cookie   rds.Cookie
	operator *rds.Socket // works on the memory of the other side
	added    uint64
	rounds   atomic.Uint64
}

const (
	upgradeRegion = 64 << 10
	upgradeBlock  = 8 << 10
)

// upgradesOf makes the daemons and their applications.
func upgradesOf(t *testing.T, wire string) *upgrades {
	t.Helper()
	clitest.NeedLoopback(t)
	u := &upgrades{restarts: restarts{T: t, dir: rdstest.Dir(t), wire: wire}, stop: make(chan struct{})}
	u.sides[0], u.sides[1] = u.restarts.sides()
	u.ctx, u.cancel = context.WithCancel(t.Context())
	t.Cleanup(u.cancel)
	for i, s := range u.sides {
		u.start(s)
		u.ends[i] = &loadEnd{u: u, received: make(map[uint64]int), fates: make(map[uint64]rds.Status)}
	}
	for i, e := range u.ends {
		e.attach(u.sides[i], u.sides[1-i])
	}
	return u
}

func (e *loadEnd) attach(here, there *side) {
	t := e.u.T
	t.Helper()
	c, err := rds.NewClient(rds.ClientConfig{Path: here.path})
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	e.client, e.to = c, there.addr
	bind := func(port uint16) *rds.Socket {
		s, err := c.Bind(netip.AddrPortFrom(here.addr.Addr(), port))
		must(t, err)
		s.SetLinger(0)
		return s
	}
	e.messages = bind(here.addr.Port())
	if e.u.wire != "xrc" {
		return
	}
	e.regions, e.operator = bind(4001), bind(4002)
	if e.memory, err = e.regions.AllocMemory(upgradeRegion); err != nil {
		t.Fatal(err)
	}
	if e.cookie, err = e.regions.GetMR(e.memory.B, rds.MRReadWrite); err != nil {
		t.Fatal(err)
	}
}

// load has both ends send, receive and operate until stop is closed.
func (u *upgrades) load() {
	for i, e := range u.ends {
		other := u.ends[1-i]
		u.senders.Go(e.send)
		u.work.Go(func() { e.receive(other) })
		if e.operator != nil {
			u.work.Go(func() { e.operate(other) })
		}
	}
}

// send sends numbers, 256 of them ahead of their fates at most.
func (e *loadEnd) send() {
	ctx, t := e.u.ctx, e.u.T
	for i := uint64(0); ; i++ {
		for i-e.told() >= 256 {
			select {
			case <-e.u.stop:
				return
			case <-time.After(100 * time.Microsecond):
			}
		}
		select {
		case <-e.u.stop:
			return
		default:
		}
		b := make([]byte, 64)
		if i%50 == 49 {
			b = make([]byte, 20_000)
		}
		binary.BigEndian.PutUint64(b, i)
		if err := e.messages.SendMessage(ctx, &rds.Outgoing{To: e.to, Data: b, Notify: true, Token: i}); err != nil {
			if ctx.Err() == nil {
				t.Errorf("send %d: %v", i, err)
			}
			return
		}
		e.sent.Store(i + 1)
	}
}

func (e *loadEnd) told() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return uint64(len(e.fates))
}

// took is how many different messages this end has received.
func (e *loadEnd) took() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return uint64(len(e.received))
}

// receive takes messages, and the fates of what this end has sent.
func (e *loadEnd) receive(from *loadEnd) {
	for {
		m, err := e.messages.Recv(e.u.ctx)
		if err != nil {
			if e.u.ctx.Err() == nil {
				e.u.T.Errorf("receive: %v", err)
			}
			return
		}
		now := time.Now()
		e.mu.Lock()
		if m.Kind == rds.KindStatus {
			if _, told := e.fates[m.Token]; told {
				e.again++
			}
			e.fates[m.Token] = m.Status
		} else {
			e.received[binary.BigEndian.Uint64(m.Data)]++
			if !e.last.IsZero() {
				e.gap = max(e.gap, now.Sub(e.last))
			}
			e.last = now
		}
		e.mu.Unlock()
		m.Release()
	}
}

// operate writes to the memory of the other end, reads it back, and counts there, by the
// cookie that it had before the first upgrade.
func (e *loadEnd) operate(other *loadEnd) {
	t, ctx := e.u.T, e.u.ctx
	out, err := e.operator.AllocMemory(upgradeBlock)
	if err != nil {
		t.Error(err)
		return
	}
	in, err := e.operator.AllocMemory(upgradeBlock)
	if err != nil {
		t.Error(err)
		return
	}
	token := uint64(0)
	do := func(what string, o rds.Outgoing) bool {
		token++
		o.To, o.Notify, o.Token = netip.AddrPortFrom(other.regions.LocalAddrPort().Addr(), 4001), true, token
		err := e.operator.SendMessage(ctx, &o)
		var m rds.Message
		if err == nil {
			m, err = e.operator.Recv(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return false
		case err != nil:
			t.Errorf("%s %d: %v", what, token, err)
			return false
		case m.Kind != rds.KindStatus || m.Token != token || m.Status != rds.StatusSuccess:
			t.Errorf("%s %d: %v of %d", what, token, m.Status, m.Token)
			return false
		}
		return true
	}
	for n := uint64(0); ; n++ {
		select {
		case <-e.u.stop:
			return
		default:
		}
		for i := range out.B {
			out.B[i] = byte(n + uint64(i))
		}
		off := 8 + n%7*upgradeBlock
		if !do("write", rds.Outgoing{RDMA: &rds.RDMA{Cookie: other.cookie, Offset: off, Local: [][]byte{out.B}, Write: true, Silent: true}}) ||
			!do("read", rds.Outgoing{RDMA: &rds.RDMA{Cookie: other.cookie, Offset: off, Local: [][]byte{in.B}, Silent: true}}) ||
			!do("add", rds.Outgoing{Atomic: &rds.Atomic{Cookie: other.cookie, Kind: rds.FetchAdd, Add: 1, Silent: true}}) {
			return
		}
		if !bytes.Equal(in.B, out.B) {
			t.Error("what was read is not what was written")
		}
		e.added++
		e.rounds.Add(1)
	}
}

// connecting connects again and again, until stop is closed, and counts refusals.
func (u *upgrades) connecting(s *side) *atomic.Int64 {
	host := s.addr.Addr().As4()
	host[3] = 1 // an address that does not talk otherwise, and that no side connects to
	from := &net.TCPAddr{IP: host[:]}
	var tries atomic.Int64
	loop := func(what string, connect func() error) {
		u.work.Go(func() {
			for {
				select {
				case <-u.stop:
					return
				case <-time.After(2 * time.Millisecond):
				}
				if err := connect(); err != nil && u.ctx.Err() == nil {
					u.T.Errorf("%s: %v", what, err)
					return
				}
				tries.Add(1)
			}
		})
	}
	dial := func(port int) func() error {
		return func() error {
			d := net.Dialer{LocalAddr: from, Timeout: 10 * time.Second}
			c, err := d.DialContext(u.ctx, "tcp", netip.AddrPortFrom(s.addr.Addr(), uint16(port)).String())
			if err == nil {
				_ = c.(*net.TCPConn).SetLinger(0)
				_ = c.Close()
			}
			return err
		}
	}
	if u.wire == "tcp" {
		loop("TCP", dial(u.port))
	} else {
		loop("XRC", dial(u.port^1))
	}
	loop("application", func() error {
		c, err := rds.Dial(s.path)
		if err == nil {
			err = c.Close()
		}
		return err
	})
	return &tries
}

// takeOver has a new process take the place of a side's daemon.
func (u *upgrades) takeOver(s *side, args ...string) {
	u.T.Helper()
	was := s.daemon
	u.startWith(s, append(args, "--takeover")...)
	if status := was.Wait(); status != 0 {
		u.T.Fatalf("the predecessor's status is %d: %s", status, was.Stderr)
	}
}

// upgrade has a new process take the place of a side's daemon, and returns for how long
// no message came, at either side.
func (u *upgrades) upgrade(s *side, args ...string) time.Duration {
	u.T.Helper()
	for _, e := range u.ends {
		e.mu.Lock()
		e.gap = 0
		e.mu.Unlock()
	}
	u.sameGeneration(s.daemon)
	u.takeOver(s, args...)
	u.traffic()
	var gap time.Duration
	for _, e := range u.ends {
		e.mu.Lock()
		gap = max(gap, e.gap)
		e.mu.Unlock()
	}
	return gap
}

// sameGeneration tells of a daemon that took its peer for another incarnation: of one that
// has taken over, or of its peer's.
func (u *upgrades) sameGeneration(p *clitest.Process) {
	u.T.Helper()
	if log := p.Stderr.String(); strings.Contains(log, "peer restarted") || strings.Contains(log, "application taken over") && strings.Contains(log, "\thandshake\t") {
		u.T.Errorf("another generation of a peer:\n%s", log)
	}
}

// traffic waits until messages, and operations, go in both directions.
func (u *upgrades) traffic() {
	u.T.Helper()
	type mark struct{ received, rounds uint64 }
	now := func(e *loadEnd) mark {
		e.mu.Lock()
		defer e.mu.Unlock()
		return mark{uint64(len(e.received)), e.rounds.Load()}
	}
	late := time.After(rdstest.Patience)
	for i, e := range u.ends {
		was := now(e)
		for n := was; n.received < was.received+20 || e.operator != nil && n.rounds < was.rounds+2; n = now(e) {
			select {
			case <-time.After(time.Millisecond):
			case <-late:
				u.T.Fatalf("no traffic at side %d: %+v, then %+v\n%s\n%s", i, was, n, u.sides[0].daemon.Stderr, u.sides[1].daemon.Stderr)
			}
			if u.T.Failed() {
				u.T.Fatalf("%s\n%s", u.sides[0].daemon.Stderr, u.sides[1].daemon.Stderr)
			}
		}
	}
}

// judge ends the load. Everything that was sent has arrived once, and has the fate Success.
func (u *upgrades) judge() {
	t := u.T
	t.Helper()
	for _, s := range u.sides {
		u.sameGeneration(s.daemon)
	}
	close(u.stop)
	u.senders.Wait()
	late := time.After(rdstest.Patience)
	for i, e := range u.ends {
		other := u.ends[1-i]
		for e.told() < e.sent.Load() || other.took() < e.sent.Load() { // Success does not say that the application has called Recv
			select {
			case <-time.After(time.Millisecond):
				continue
			case <-late:
				t.Errorf("side %d: %d fates of %d messages, %d received", i, e.told(), e.sent.Load(), other.took())
			}
			break
		}
		other.mu.Lock()
		e.mu.Lock()
		lost, doubled, failed := 0, 0, 0
		for n := range e.sent.Load() {
			switch other.received[n] {
			case 0:
				lost++
			case 1:
			default:
				doubled++
			}
			if e.fates[n] != rds.StatusSuccess {
				failed++
			}
		}
		t.Logf("side %d: %d messages, %d lost, %d doubled, %d without Success, %d fates twice; %d rounds of RDMA", i, e.sent.Load(), lost, doubled, failed, e.again, e.rounds.Load())
		if lost+doubled+failed+e.again > 0 || e.sent.Load() == 0 {
			t.Errorf("PROMISE: side %d: not all messages arrived once with Success", i)
		}
		e.mu.Unlock()
		other.mu.Unlock()
	}
	done := make(chan struct{})
	go func() {
		time.AfterFunc(10*time.Second, u.cancel)
		u.work.Wait()
		close(done)
	}()
	u.cancelReceivers()
	<-done
	for i, e := range u.ends {
		if other := u.ends[1-i]; e.operator != nil {
			if n := binary.NativeEndian.Uint64(other.memory.B); n != e.added || n == 0 {
				t.Errorf("side %d: %d additions, the word is %d", i, e.added, n)
			}
		}
	}
}

// cancelReceivers ends the calls of Recv once operations have ended.
func (u *upgrades) cancelReceivers() {
	deadline := time.Now().Add(5 * time.Second)
	for _, e := range u.ends {
		if e.operator != nil {
			for was := e.rounds.Load() - 1; was != e.rounds.Load() && time.Now().Before(deadline); {
				was = e.rounds.Load()
				<-time.After(50 * time.Millisecond)
			}
		}
	}
	u.cancel()
}

// upgradeTimes is how often daemons are upgraded in a test.
func upgradeTimes() int {
	if os.Getenv("RDS_LONG") != "" {
		return 100
	}
	return 5
}

// A daemon is upgraded again and again under load in both directions: no connect is
// refused, no message is lost or doubled, none has another fate than Success, and the
// cookies from before the first upgrade are good after the last.
func TestUpgrades(t *testing.T) {
	t.Parallel()
	rdstest.EachWire(t, func(t *testing.T, wire rds.Wire) {
		u := upgradesOf(t, string(wire))
		u.load()
		tries := [2]*atomic.Int64{u.connecting(u.sides[0]), u.connecting(u.sides[1])}
		u.traffic()
		var pauses []time.Duration
		for i := range upgradeTimes() {
			pauses = append(pauses, u.upgrade(u.sides[i%2]))
		}
		u.judge()
		slices.Sort(pauses)
		t.Logf("%d upgrades, pause of at most %v, median %v; %d and %d connects", len(pauses), pauses[len(pauses)-1], pauses[len(pauses)/2], tries[0].Load(), tries[1].Load())
		for i := range tries {
			if tries[i].Load() == 0 {
				t.Errorf("nobody connected to side %d", i)
			}
		}
	})
}
