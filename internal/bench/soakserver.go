package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/rds"
)

// soakServer is one socket of a soak's server side: one goroutine.
type soakServer struct {
	p       *soakProcess
	s       *rds.Socket
	j       *journal
	socket  int
	life    uint64
	started record // journal record of this life
	shared  *rds.Memory
	read    *rds.Memory // memory of readKey
	keys    [2]rds.Cookie
	lanes   map[uint64]*placedLane // places by client socket<<16 | lane
	flows   map[flowKey]*soakFlow
	acct    account
	reply   []byte
}

// flowKey is a client socket in one of its lives.
type flowKey struct {
	socket uint32
	life   uint64
}

// soakFlow is what has come from there.
type soakFlow struct {
	record  record
	replies uint64 // replies in this life of the server socket
}

// placedLane is what a client's lane has here.
type placedLane struct {
	life     uint64 // life of the client
	epoch    uint32
	region   rds.Cookie
	now      *rds.Memory // memory of region
	released *rds.Memory // memory of the previous region, which nobody may write any more; nil before there was one
	filled   bool        // released is filled with kindReleased
}

func newSoakServer(p *soakProcess, s *rds.Socket, socket int, j *journal) *soakServer {
	w := p.spec.Work
	t := &soakServer{p: p, s: s, j: j, socket: socket, acct: *j.account(), flows: map[flowKey]*soakFlow{},
		reply: make([]byte, w.Reply)}
	j.records(recordFlow, func(r record) { t.flows[flowKey{uint32(r.at(1)), r.at(2)}] = &soakFlow{record: r} })
	return t
}

// work serves until the process is to end, in one life after the other.
func (t *soakServer) work() error {
	for n := uint64(1); ; n++ {
		t.life = t.p.spec.Process<<lifeBits | n
		err := t.live()
		if !errors.Is(err, rds.ErrDaemonLost) || t.p.ctx.Err() != nil {
			return err
		}
	}
}

// live serves for a life.
func (t *soakServer) live() error {
	t.lanes, t.shared, t.started = map[uint64]*placedLane{}, nil, record{}
	for _, f := range t.flows {
		f.replies = 0
	}
	if err := t.bound(); err != nil {
		return err
	}
	t.p.tell(soakPeer{Socket: t.socket, Addr: t.s.LocalAddrPort(), Life: t.life})
	var m soakMessage
	for {
		got, err := t.s.Recv(t.p.ctx)
		if t.p.ctx.Err() != nil {
			return t.finish()
		}
		if err != nil {
			return err
		}
		from := got.From
		if from.Port() == 0 { // the answer to bound's
			got.Release()
			continue
		}
		err = m.parse(got.Data, kindAsk)
		got.Release()
		if err == nil {
			err = t.take(&m)
		}
		if err != nil {
			return err
		}
		t.note()
		if err := m.fill(t.reply); err != nil {
			return err
		}
		if err := t.s.Send(t.p.ctx, from, t.reply); err != nil {
			return err
		}
	}
}

// bound waits until the socket is one of the present daemon: what came before that
// would be for nobody. A ping of itself, of which the answer does
// not matter, is sent only then.
func (t *soakServer) bound() error {
	if !t.p.attached {
		return nil
	}
	err := t.s.Send(t.p.ctx, netip.AddrPortFrom(t.s.LocalAddrPort().Addr(), 0), nil)
	if t.p.ctx.Err() != nil {
		return nil
	}
	return err
}

// take verifies a message and makes it the reply.
func (t *soakServer) take(m *soakMessage) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("verify: message %d of client socket %d, life %#x, to socket %d in life %#x: "+format,
			append([]any{m.Number, m.From, m.FromLife, t.socket, t.life}, args...)...)
	}
	w := t.p.spec.Work
	if int(m.To) != t.socket || int(m.From) >= w.soakSockets() || int(m.Exchange>>48) >= w.Depth || int(m.Off+m.N) > w.soakPlace() || m.ToLife > t.life {
		return bad("it says %+v", *m)
	}
	f, err := t.advance(m)
	if err != nil {
		return bad("%w", err)
	}
	lane := t.lanes[laneKey(m)]
	bogus := [2]uint64{m.Region, m.ReadOnly}
	m.Region, m.ReadOnly, m.Shared = 0, 0, 0
	switch turn(m.Turn) {
	case turnBad:
		return bad("it came with an operation that had to be refused, kind %d with %#x", bogus[1], bogus[0])
	case turnHello:
		if err := t.renew(m); err != nil {
			return err
		}
	case turnWrite, turnBoth:
		if lane == nil || lane.life != m.FromLife || lane.epoch != m.Epoch || m.ToLife != t.life {
			break // the message is for a region that is gone
		}
		if err := checkPattern(lane.now.B[m.Off:][:m.N], m.pattern(kindPlaced)); err != nil {
			return bad("%d bytes at %d are not what was written before it: %w", m.N, m.Off, err)
		}
	}
	m.Kind, m.To, m.From = kindAnswer, m.From, uint32(t.socket)
	m.ToLife, m.FromLife, m.Number = m.FromLife, t.life, f.replies
	f.replies++
	t.acct.Messages++
	t.j.setAccount(&t.acct)
	return nil
}

func laneKey(m *soakMessage) uint64 { return uint64(m.From)<<16 | m.Exchange>>48 }

// advance checks the order of a message. One that was left out is noted.
func (t *soakServer) advance(m *soakMessage) (*soakFlow, error) {
	key := flowKey{m.From, m.FromLife}
	f := t.flows[key]
	if f == nil {
		r, err := t.j.add(recordFlow, uint64(m.From), m.FromLife)
		if err != nil {
			return nil, err
		}
		f = &soakFlow{record: r}
		t.flows[key] = f
	}
	r := f.record
	if next := r.at(3); m.Number < next {
		return nil, fmt.Errorf("it came again, or late: %d was due", next)
	} else if m.Number > next {
		if _, err := t.j.add(recordGap, uint64(m.From), m.FromLife, next, m.Number, t.life); err != nil {
			return nil, err
		}
	}
	r.set(3, m.Number+1)
	return f, nil
}

// renew gives a lane a new region, and ends the one that it had: whatever is written
// there from now on is an error.
func (t *soakServer) renew(m *soakMessage) error {
	l := t.lanes[laneKey(m)]
	size := t.p.spec.Work.soakPlace()
	switch {
	case l == nil:
		l = &placedLane{}
		for _, p := range []**rds.Memory{&l.now, &l.released} {
			var err error
			if *p, err = t.s.AllocMemory(size); err != nil {
				return t.p.lost(err)
			}
		}
		t.lanes[laneKey(m)] = l
	case l.life > m.FromLife:
		return nil // the reply is of a life that is over, and nobody awaits it
	default:
		if err := t.s.FreeMR(l.region, rds.MRInvalidate); err != nil {
			return t.p.lost(err)
		}
		if err := t.untouched(l); err != nil {
			return err
		}
		fillPattern(l.now.B, uint64(kindReleased))
		l.now, l.released, l.filled = l.released, l.now, true
	}
	clear(l.now.B)
	var err error
	if l.region, err = t.s.GetMR(l.now.B, rds.MRReadWrite); err != nil {
		return t.p.lost(err)
	}
	if err := t.expose(); err != nil {
		return t.p.lost(err)
	}
	l.life, l.epoch = m.FromLife, l.epoch+1
	m.Epoch, m.Region, m.ReadOnly, m.Shared = l.epoch, uint64(l.region), uint64(t.keys[0]), uint64(t.keys[1])
	t.acct.Regions++
	return nil
}

// untouched checks the memory of a lane's region that has ended.
func (t *soakServer) untouched(l *placedLane) error {
	if !l.filled {
		return nil
	}
	if err := checkPattern(l.released.B, uint64(kindReleased)); err != nil {
		return fmt.Errorf("verify: socket %d, life %#x: memory was written after its region had ended: %w", t.socket, t.life, err)
	}
	t.acct.Released++
	return nil
}

// expose exposes what all clients share: a word that they add to, and memory that is
// not to be written. The word of a node is in the journal, which tells it after a kill.
func (t *soakServer) expose() error {
	if t.shared != nil {
		return nil
	}
	r, err := t.j.add(recordLife, t.life, 0, 0)
	if err != nil {
		return err
	}
	shared := &rds.Memory{B: r.slice(2, 1)}
	if t.p.attached {
		if shared, err = t.s.AllocMemory(wordSize); err != nil {
			return err
		}
	}
	if t.read, err = t.s.AllocMemory(t.p.spec.Work.soakPlace()); err != nil {
		return err
	}
	if t.keys[0], err = t.s.GetMR(t.read.B, rds.MRReadOnly); err != nil {
		return err
	}
	if t.keys[1], err = t.s.GetMR(shared.B, rds.MRReadWrite); err != nil {
		return err
	}
	t.shared, t.started = shared, r
	return nil
}

// note keeps the shared word as it is now.
func (t *soakServer) note() {
	if t.shared != nil && t.p.attached {
		t.started.set(2, mr.FetchAdd(t.shared.B, 0, 0))
	}
}

// finish ends the life when all clients have ended: all memory is as it has to be.
func (t *soakServer) finish() error {
	t.note()
	if t.started.words != nil {
		t.started.set(3, 1)
	}
	for _, l := range t.lanes {
		if err := t.untouched(l); err != nil {
			return err
		}
	}
	if t.read != nil && t.shared != nil && binary.NativeEndian.Uint64(t.read.B) != 0 {
		return fmt.Errorf("verify: socket %d: memory that is not to be written was", t.socket)
	}
	t.j.setAccount(&t.acct)
	return nil
}
