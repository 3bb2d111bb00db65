package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/rds-go/rds/rds"
)

// soakClient is one socket of a soak's client side: one goroutine.
type soakClient struct {
	p       *soakProcess
	s       *rds.Socket
	w       *Work
	j       *journal
	rng     *rand.Rand
	socket  int // index of the socket among those of all clients
	life    uint64
	lanes   []soakLane
	peers   []soakPeer         // peers as the lanes know them
	sent    []uint64           // messages sent to each peer, in this life
	answers map[flowKey]uint64 // next number of each life of each peer
	ended   map[flowKey]uint64 // host generation of each life of each peer that is over
	orphans map[uint64]bool    // exchanges of earlier lives whose fate may come
	late    map[uint64]bool    // exchanges that are over, to which a reply may come
	adds    map[flowKey]record
	excuses []excuse
	acct    account
	buf     []byte

	mu     sync.Mutex
	news   []soakPeer         // guarded by mu: not yet taken
	cancel context.CancelFunc // guarded by mu: ends the Recv under way
}

// excuse is what has gone wrong and may, if the receiver's life is over, or its host's.
// Nobody tells both in an order of their own, so it has until the end to be accepted.
type excuse struct {
	socket     int
	life, host uint64 // lives that have to be over; 0: need not be over
	what       error
}

// soakLane does one exchange at a time.
type soakLane struct {
	number  uint64 // number of the exchange
	peer    int
	turn    turn
	silent  bool
	message uint64 // number of the message
	off, n  int
	life    uint64 // life of the peer, as the client knew it
	in      uint64 // life that the lane's region at the peer is of
	fated   bool
	status  rds.Status
	reply   bool
	void    bool // no reply need come any more
	local   *rds.Memory
	result  uint64
	want    uint64
	at      []soakRegion // the lane's region at each peer
}

// soakRegion is what a lane has at a peer.
type soakRegion struct {
	life   uint64 // 0: nothing
	epoch  uint32
	region rds.Cookie
	only   rds.Cookie // region that may not be written
	shared rds.Cookie
	host   uint64     // host generation of the peer that has these regions
	stale  rds.Cookie // a region that has ended; 0: none so far
	gone   uint64     // host generation of the peer that had stale
	known  []byte
	unsure bool
}

const laneShift = 48

// neverOver is a life that does not end before ours.
const neverOver = 1<<64 - 1

func newSoakClient(p *soakProcess, s *rds.Socket, socket int, j *journal) *soakClient {
	w := p.spec.Work
	n := len(p.spec.Peers)
	t := &soakClient{p: p, s: s, w: w, j: j, socket: socket, rng: rand.New(rand.NewPCG(p.spec.Process<<32|uint64(socket), w.Seed)),
		lanes: make([]soakLane, w.Depth), peers: slices.Clone(p.spec.Peers), sent: make([]uint64, n), orphans: map[uint64]bool{}, ended: map[flowKey]uint64{},
		acct: *j.account(), buf: make([]byte, w.maxSize())}
	for i := range t.lanes {
		t.lanes[i].number = uint64(i)<<laneShift | 1
		t.lanes[i].at = make([]soakRegion, n)
	}
	return t
}

// tell has the socket know of a peer's life.
func (t *soakClient) tell(p soakPeer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.news = append(t.news, p)
	if t.cancel != nil {
		t.cancel()
	}
}

// recv is Recv that ends early when there is news.
func (t *soakClient) recv() (rds.Message, error) {
	ctx, cancel := context.WithCancel(t.p.ctx)
	defer cancel()
	t.mu.Lock()
	if len(t.news) > 0 {
		cancel()
	}
	t.cancel = cancel
	t.mu.Unlock()
	return t.s.Recv(ctx)
}

// work exchanges until the process is to stop and everything is accounted for, in one
// life after the other.
func (t *soakClient) work() error {
	for n := uint64(1); ; n++ {
		t.life = t.p.spec.Process<<lifeBits | n
		if err := t.j.died(len(t.lanes)); err != nil {
			return err
		}
		if n > 1 {
			t.acct.Lives++
		}
		err := t.live()
		if !errors.Is(err, rds.ErrDaemonLost) || t.p.ctx.Err() != nil {
			return err
		}
	}
}

// live exchanges for a life.
func (t *soakClient) live() error {
	clear(t.sent)
	t.answers, t.late, t.adds, t.excuses = map[flowKey]uint64{}, map[uint64]bool{}, map[flowKey]record{}, nil
	for i := range t.lanes {
		l := &t.lanes[i]
		if l.life != 0 && !l.fated {
			t.orphans[l.number] = true
		}
		l.local = nil // the memory is of a daemon that has ended
		for k := range l.at {
			l.at[k] = soakRegion{known: l.at[k].known}
		}
	}
	for i := range t.lanes {
		if err := t.begin(&t.lanes[i]); err != nil {
			return err
		}
	}
	for busy := len(t.lanes); busy > 0; {
		if err := t.hear(); err != nil {
			return err
		}
		for i := range t.lanes {
			l := &t.lanes[i]
			if l.life == 0 || !l.done() {
				continue
			}
			if err := t.end(l); err != nil {
				return err
			}
			if t.p.stopping.Load() {
				l.life = 0
				busy--
			} else if err := t.begin(l); err != nil {
				return err
			}
		}
	}
	if len(t.excuses) > 0 {
		return t.excuses[0].what
	}
	return nil
}

// hear takes the next fate, reply, or news of a peer.
func (t *soakClient) hear() error {
	m, err := t.recv()
	t.mu.Lock()
	news := t.news
	t.news = nil
	t.mu.Unlock()
	for _, p := range news {
		t.learn(p)
	}
	switch {
	case err == nil:
		defer m.Release()
		return t.take(&m)
	case errors.Is(err, context.Canceled) && t.p.ctx.Err() == nil:
		return nil
	}
	return err
}

// learn is that a peer's life, or its host's, has ended: what had been sent there
// before need not be answered.
func (t *soakClient) learn(p soakPeer) {
	if known := &t.peers[p.Socket]; p.Life > known.Life || p.Host > known.Host {
		if p.Life > known.Life {
			t.ended[flowKey{uint32(p.Socket), known.Life}] = known.Host
		}
		known.Life, known.Host = max(p.Life, known.Life), max(p.Host, known.Host)
	}
	now := t.peers[p.Socket]
	for i := range t.lanes {
		l := &t.lanes[i]
		if r := &l.at[p.Socket]; r.life != 0 && r.life < now.Life {
			r.life, r.stale, r.gone = 0, r.region, r.host
		}
		if l.life != 0 && l.peer == p.Socket && l.life < now.Life {
			l.void = true
		}
	}
	t.excuses = slices.DeleteFunc(t.excuses, func(e excuse) bool {
		return e.socket == p.Socket && (e.life == 0 || now.Life > e.life) && (e.host == 0 || now.Host > e.host)
	})
}

// done tells whether nothing more is due to the exchange.
func (l *soakLane) done() bool {
	return l.fated && (l.reply || l.silent || l.void || l.status != rds.StatusSuccess)
}

// missing is what is due to exchanges that have not ended.
func (t *soakClient) missing() error {
	var errs []error
	for i := range t.lanes {
		if l := &t.lanes[i]; l.life != 0 && len(errs) < 4 {
			errs = append(errs, fmt.Errorf("exchange %#x of client socket %d in life %#x, kind %d, message %d to socket %d in life %#x (now %#x): fate %t, reply %t, void %t",
				l.number, t.socket, t.life, l.turn, l.message, l.peer, l.life, t.peers[l.peer].Life, l.fated, l.reply || l.silent, l.void))
		}
	}
	return errors.Join(errs...)
}

// take finds what a fate or a reply is for.
func (t *soakClient) take(m *rds.Message) error {
	if m.Kind == rds.KindStatus {
		l := &t.lanes[min(m.Token>>laneShift, uint64(len(t.lanes)-1))]
		switch {
		case l.number == m.Token && l.life != 0 && !l.fated:
			l.fated, l.status = true, m.Status
		case t.orphans[m.Token]:
			delete(t.orphans, m.Token)
		default:
			return fmt.Errorf("verify: fate %d of exchange %#x, which has none to come", m.Status, m.Token)
		}
		return nil
	}
	var a soakMessage
	if err := a.parse(m.Data, kindAnswer); err != nil {
		return err
	}
	if int(a.To) != t.socket || a.ToLife > t.life || int(a.From) >= len(t.peers) || m.From != t.peers[a.From].Addr {
		return fmt.Errorf("verify: client socket %d in life %#x got %+v from %v", t.socket, t.life, a, m.From)
	}
	if a.ToLife < t.life {
		return nil
	}
	from := flowKey{a.From, a.FromLife}
	if next := t.answers[from]; a.Number != next {
		err := fmt.Errorf("verify: reply %d of socket %d, life %#x, and %d was due", a.Number, a.From, a.FromLife, next)
		if !t.p.attached || a.Number < next {
			return err
		}
		t.gap(&a, err)
	}
	t.answers[from] = a.Number + 1
	if t.late[a.Exchange] {
		delete(t.late, a.Exchange)
		t.acct.Late++
		return nil
	}
	l := &t.lanes[min(a.Exchange>>laneShift, uint64(len(t.lanes)-1))]
	if l.number != a.Exchange || l.life == 0 || l.reply || l.silent || l.turn == turnBad || l.peer != int(a.From) {
		return fmt.Errorf("verify: a reply to exchange %#x, which awaits none", a.Exchange)
	}
	l.reply = true
	t.acct.Replies++
	if now := t.peers[a.From]; l.turn == turnHello && a.Region != 0 && a.FromLife >= now.Life {
		now.Life = a.FromLife
		t.learn(now)
		t.welcome(l, &a)
	}
	return nil
}

// gap is that replies are missing: their sender's daemon may have been killed when it had begun
// to take them, and the next one has taken what was submitted behind them before the sender
// heard of the loss.
func (t *soakClient) gap(a *soakMessage, what error) {
	now := t.peers[a.From]
	host := now.Host
	if now.Life > a.FromLife {
		host = t.ended[flowKey{a.From, a.FromLife}]
	}
	t.excuses = append(t.excuses, excuse{int(a.From), a.FromLife, host, what})
	t.learn(now)
}

// welcome takes the region that a lane has got.
func (t *soakClient) welcome(l *soakLane, a *soakMessage) {
	r := &l.at[l.peer]
	if r.region != 0 {
		r.stale, r.gone = r.region, r.host
	}
	if r.known == nil {
		r.known = make([]byte, t.w.soakPlace())
	}
	clear(r.known)
	r.life, r.host, r.epoch, r.unsure = a.FromLife, t.peers[l.peer].Host, a.Epoch, false
	r.region, r.only, r.shared = rds.Cookie(a.Region), rds.Cookie(a.ReadOnly), rds.Cookie(a.Shared)
}
