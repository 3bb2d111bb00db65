package conn

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
)

// duo is two cores back to back. Nothing happens by itself: its methods are
// what a fuzzer's bytes call.
type duo struct {
	t     testing.TB
	now   time.Time
	side  [2]*duoSide
	links []*duoLink
	told  bool // a link's set-up says which path it is for
	lied  bool // a side was told what no peer would say: it may never come to rest
}

type duoSide struct {
	c     *Conn
	in    [MaxPaths]Inbound
	batch [MaxPaths]Batch
	write [MaxPaths][]byte // under way, as Fill showed it
	end   [MaxPaths]*duoEnd
	ends  map[LinkID]*duoEnd
	last  LinkID
	dials []int // asked for
	accts [2]Account
	sent  [2]uint64
	got   [2]uint64              // number of the last message from each of the peer's sockets
	count [2]uint64              // how many messages have come from each of them
	ops   [MaxPaths][]*Operation // begun and not done
	begun int                    // in all
	cmap  wire.CongestionMap     // congestion map of this side's ports
}

// duoLink is a connection: what one end writes the other can read.
type duoLink struct {
	ends  [2]*duoEnd // the ends of side 0 and side 1
	sport uint16
	cut   bool
	posed bool // an impostor has the other end
}

type duoEnd struct {
	l       *duoLink
	id      LinkID
	path    int
	started bool
	over    bool   // reported, or closed without a start
	flight  []byte // written, not yet at the other side
	arrived uint64 // there, hence acknowledged
	buf     []byte // arrived here, to be read
}

func newDuo(t testing.TB, paths [2]int) *duo {
	d := &duo{t: t, now: epochTime}
	for i := range d.side {
		s := &duoSide{ends: map[LinkID]*duoEnd{}}
		s.c = New(Config{
			Local: netip.AddrFrom4([4]byte{10, 0, 0, byte(1 + i)}), Remote: netip.AddrFrom4([4]byte{10, 0, 0, byte(2 - i)}),
			Paths: paths[i], Generation: uint32(1 + i), Rand: rand.New(rand.NewPCG(1, uint64(i))), Budget: 64 << 10, MaxPongs: 8,
			LocalMap: func(m *wire.CongestionMap) { *m = s.cmap },
		})
		for k := range s.accts {
			s.accts[k].SetLimit(16 << 10)
		}
		d.side[i] = s
	}
	return d
}

// do carries out what side i asks for, except for its dials.
func (d *duo) do(i int) {
	s := d.side[i]
	for _, a := range s.c.TakeActions(nil) {
		switch a.Kind {
		case Dial:
			s.dials = append(s.dials, a.Path)
		case Start:
			e := s.ends[a.Link]
			e.started, e.path = true, a.Path
			s.end[a.Path] = e
			s.in[a.Path].Begin()
		case CloseLink:
			if e := s.ends[a.Link]; e != nil {
				e.l.cut = true
				if !e.started {
					e.over = true
					delete(s.ends, a.Link)
				}
			}
		}
	}
	s.c.TakeFates(nil)
	s.c.TakeFreed(nil)
	checkConn(d.t, s.c)
}

func (d *duo) send(i, k, size int) {
	s := d.side[i]
	size = 8 + size%2000
	var op *Operation
	if size%12 == 0 {
		op = &Operation{Fence: size%24 == 0, Silent: size%5 == 0}
		if op.Silent {
			size = 0
		}
	}
	a := &s.accts[k]
	if !a.Charge(size) {
		return
	}
	m := Message{Sport: uint16(4000 + k), Dport: uint16(5000 + k), Account: a, Payload: make([]byte, size), Op: op, Admitted: size%3 == 0}
	if size%7 == 0 {
		m.Deadline = d.now.Add(time.Duration(size) * time.Millisecond)
	}
	if size > 0 {
		binary.BigEndian.PutUint64(m.Payload, s.sent[k]+1)
	}
	if _, err := s.c.Enqueue(d.now, s.c.PathFor(m.Sport), &m); err != nil {
		a.Refund(size, 1)
	} else {
		s.sent[k]++
	}
	d.do(i)
}

// answer ends the oldest dial of side i.
func (d *duo) answer(i int, ok bool) {
	s, peer := d.side[i], d.side[1-i]
	if len(s.dials) == 0 {
		return
	}
	path := s.dials[0]
	s.dials = s.dials[1:]
	if !ok {
		s.c.DialFailed(d.now, path)
		d.do(i)
		return
	}
	l := &duoLink{sport: uint16(32768 + path)}
	d.links = append(d.links, l)
	for k, x := range []*duoSide{s, peer} {
		x.last++
		e := &duoEnd{l: l, id: x.last}
		x.ends[x.last] = e
		l.ends[i^k] = e
	}
	d.accepted(1-i, peer.last, l)
	s.c.Dialed(d.now, path, s.last)
	d.do(i)
}

// accepted offers side i a link.
func (d *duo) accepted(i int, id LinkID, l *duoLink) {
	if c := d.side[i].c; d.told {
		c.AcceptedFor(d.now, id, int(l.sport%MaxPaths))
	} else {
		c.Accepted(d.now, id, l.sport)
	}
	d.do(i)
}

// impostor connects to side i from the address of the other side, and states a generation and
// path settings of its own. It takes nothing of what side i sends, and stays until somebody
// ends its link.
func (d *duo) impostor(i, path, arg int) {
	s := d.side[i]
	l := &duoLink{sport: uint16(32768 + path), posed: true}
	h := wire.Header{Sequence: uint64(arg), Sport: wire.PortProbe}
	wire.Handshake{HasPaths: true, Paths: []uint16{1, MaxPaths}[arg&1], Generation: uint32(100 + arg%16), SourceIndex: arg&16 > 0}.Put(&h.Extensions)
	s.last++
	e := &duoEnd{l: l, id: s.last}
	l.ends[i], l.ends[1-i] = e, &duoEnd{l: l, flight: h.AppendTo(nil)}
	s.ends[e.id] = e
	d.links = append(d.links, l)
	up := make(map[int]*duoLink)
	for k, e := range s.end {
		if misplaced := e != nil && int(e.l.sport)%MaxPaths != k; e != nil && !misplaced && !e.l.cut && s.c.paths[k].state == Up {
			up[k] = e.l
		}
	}
	d.accepted(i, e.id, l)
	for k, l := range up {
		if l.cut {
			d.t.Errorf("side %d: the link of path %d ends at once for another one", i, k)
		}
	}
}

func (d *duo) fill(i, path int) {
	s := d.side[i]
	if s.write[path] == nil && s.end[path] != nil && s.c.Fill(path, &s.batch[path]) {
		s.write[path] = append([]byte{}, octets(&s.batch[path])...)
	}
	checkConn(d.t, s.c)
}

func (d *duo) wrote(i, path, n int) {
	s := d.side[i]
	w := s.write[path]
	if w == nil {
		return
	}
	b := &s.batch[path]
	if string(octets(b)) != string(w) {
		d.t.Fatal("what Fill showed has changed")
	}
	e := s.end[path]
	var t transport.Taken
	var refused *Operation
	if !e.l.cut {
		t, refused = d.take(i, path, n)
	}
	e.flight = append(e.flight, w[:b.Taken(t)]...)
	s.write[path] = nil
	s.c.Wrote(path, t)
	if e.l.cut {
		s.c.LinkFailed(e.id)
	} else if refused != nil {
		s.c.OpRefused(refused)
	}
	d.do(i)
}

// take has the link of path take n octets, and operations until it has no room for one or
// refuses one.
func (d *duo) take(i, path, n int) (t transport.Taken, refused *Operation) {
	s := d.side[i]
	b := &s.batch[path]
	room := 0
	for room < len(b.Ops) && (n+room)%16 != 5 && (n+room)%16 != 6 {
		room++
	}
	t = take(b, n, room)
	for k, o := range begun(b, t) {
		if o.Op.Work != nil {
			d.t.Fatal("an operation is begun again")
		}
		o.Op.Work = d
		s.begun++
		if (n+k)%16 == 7 {
			s.c.OpDone(path, o.Op, Success) // before Wrote
		} else {
			s.ops[path] = append(s.ops[path], o.Op)
		}
	}
	if room < len(b.Ops) && (n+room)%16 == 6 && b.Ops[room].Frame == t.Frames && !t.Begun() {
		refused = b.Ops[room].Op
	}
	return t, refused
}

// opDone ends one of the operations that path of side i has begun.
func (d *duo) opDone(i, path, arg int) {
	s := d.side[i]
	if n := len(s.ops[path]); n > 0 {
		k := arg % n
		op := s.ops[path][k]
		s.ops[path] = append(s.ops[path][:k], s.ops[path][k+1:]...)
		status := Success
		if arg%4 == 0 {
			status = RemoteError
		}
		s.c.OpDone(path, op, status)
		d.do(i)
	}
}

// arrive brings at most n bytes to path of side i.
func (d *duo) arrive(i, path, n int) {
	e := d.side[i].end[path]
	if e == nil || e.l.cut {
		return
	}
	from := e.l.ends[1-i]
	n = min(n, len(from.flight))
	e.buf = append(e.buf, from.flight[:n]...)
	from.flight = from.flight[n:]
	from.arrived += uint64(n)
}

// read takes at most n messages from path of side i.
func (d *duo) read(i, path, n int) {
	s := d.side[i]
	e := s.end[path]
	for ; n > 0 && e != nil && len(e.buf) >= wire.HeaderSize; n-- {
		var h wire.Header
		_ = h.Decode(e.buf)
		size := wire.HeaderSize + int(h.Length)
		if len(e.buf) < size {
			return
		}
		payload := e.buf[wire.HeaderSize:size]
		e.buf = e.buf[size:]
		in := &s.in[path]
		s.c.Proved(d.now, path)
		s.c.Heard(d.now, path)
		d.do(i)
		switch {
		case !h.IsCongestion() && !in.Accept(&h):
		case s.c.IsControl(&h):
			s.c.HandleControl(d.now, path, &h, payload)
			if g, ok := s.c.Stated(path); ok {
				in.State(g)
			}
			d.do(i)
		case h.Dport == 5000 || h.Dport == 5001:
			k := h.Dport - 5000
			if n := binary.BigEndian.Uint64(payload); n <= s.got[k] {
				d.t.Fatalf("message %d of socket %d arrived after %d", n, k, s.got[k])
			} else {
				s.got[k] = n
				s.count[k]++
				in.Took(1)
			}
		}
	}
}

// acked tells side i what the other side's TCP has of path.
func (d *duo) acked(i, path int) {
	if s := d.side[i]; s.end[path] != nil {
		s.c.Acked(path, s.end[path].arrived)
		d.do(i)
	}
}

// finish reads what path of side i still has to read and reports its end, if
// its link is lost and nobody writes.
func (d *duo) finish(i, path int) {
	s := d.side[i]
	e := s.end[path]
	if e == nil || !e.l.cut || s.write[path] != nil {
		return
	}
	d.read(i, path, 1<<30)
	if s.end[path] != e || e.over {
		return
	}
	e.over = true
	s.end[path] = nil
	delete(s.ends, e.id)
	s.c.LinkClosed(d.now, e.id, e.arrived)
	d.do(i)
}

// lie has side i hear a handshake that its peer would not send.
func (d *duo) lie(i, path, arg int) {
	s := d.side[i]
	if arg < 200 || s.end[path] == nil {
		return
	}
	d.lied = true
	h := wire.Header{Sport: uint16(arg & 3), Dport: uint16(arg >> 2 & 1)}
	wire.Handshake{HasPaths: arg&8 > 0, Paths: uint16(arg & 15), Generation: uint32(arg & 7), SourceIndex: arg&16 > 0}.Put(&h.Extensions)
	if s.c.IsControl(&h) {
		s.c.HandleControl(d.now, path, &h, nil)
		d.do(i)
	}
}

func (d *duo) tick(by time.Duration) {
	d.now = d.now.Add(by)
	for i, s := range d.side {
		s.c.Tick(d.now)
		d.do(i)
	}
}

// settle lets everything happen until nothing is left to do. Links of impostors end: they
// answer nothing, which transports do not bear for long.
func (d *duo) settle() {
	for _, l := range d.links {
		l.cut = l.cut || l.posed
	}
	for i, s := range d.side {
		s.c.Unbar(d.now)
		s.c.Hold([]uint16{5000, 5001}, false)
		s.cmap = wire.CongestionMap{}
		s.c.MapChanged()
		d.do(i)
	}
	for round := range 400 {
		rest := true
		for i, s := range d.side {
			d.answer(i, true)
			for path := range MaxPaths {
				d.fill(i, path)
				d.wrote(i, path, 1<<30)
				d.arrive(i, path, 1<<30)
				d.read(i, path, 1<<30)
				d.acked(i, path)
				d.finish(i, path)
				for len(s.ops[path]) > 0 {
					d.opDone(i, path, round)
				}
			}
			rest = rest && s.c.Queued() == 0 && len(s.dials) == 0
		}
		if rest && round > 20 {
			return
		}
		d.tick(200 * time.Millisecond)
	}
	for i, s := range d.side {
		d.t.Errorf("side %d is not at rest: %d bytes queued, %+v", i, s.c.Queued(), s.c.PathInfos())
	}
}

// end closes side i, and checks that nothing is left of it.
func (d *duo) end(i int) {
	c := d.side[i].c
	c.Close()
	d.do(i)
	for path := range MaxPaths {
		d.wrote(i, path, 0)
	}
	if c.Queued() != 0 {
		d.t.Errorf("side %d: %d bytes queued after Close", i, c.Queued())
	}
	for path := range MaxPaths {
		if c.paths[path].log.tail != nil {
			d.t.Errorf("side %d: path %d keeps memory after Close", i, path)
		}
	}
}
