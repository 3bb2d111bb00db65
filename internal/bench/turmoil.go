package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"

	"github.com/rds-go/rds/rds"
)

// Bounds and layout of a Turmoil.
const (
	maxPlace    = 64 << 10 // bytes of a place
	maxTurmoil  = 4096     // bytes of a region
	sharedWords = 16       // words behind the places that all lanes add to
	turmoilHead = stressHeader
)

// A Turmoil exchanges verified messages and operations on the server's memory.
// Each server socket has one region: a place for each lane of each client socket,
// and words that all add to. A lane does one exchange at a time, so it knows what
// is in its places.

// placeSize is the size of a place.
func (w *Work) placeSize() int {
	n := rds.MaxMessage - sharedWords*wordSize
	return min(maxPlace, n/max(w.places(), 1)) &^ 63
}

func (w *Work) places() int      { return w.Sockets * max(w.Processes, 1) * w.Depth }
func (w *Work) sharedAt() int    { return w.places() * w.placeSize() }
func (w *Work) regionBytes() int { return w.sharedAt() + sharedWords*wordSize }

// checkTurmoil refuses works out of bounds.
func (w *Work) checkTurmoil() bool {
	return w.Sockets >= 1 && w.Depth >= 1 && w.Peers >= 1 && w.places() <= maxTurmoil && w.placeSize() >= 64 &&
		w.Reply >= turmoilHead && w.Reply <= rds.MaxMessage && w.maxSize() >= turmoilHead
}

// note is what a message says of itself, in the place of the stamp: what it did
// to which place, and the exchange that it belongs to.
type note struct {
	kind  turn
	gen   uint16 // generation of the lane, 14 bits
	place int    // 12 bits
	off   int    // 17 bits each
	n     int
}

func (m note) pack() int64 {
	return int64(uint64(m.kind)<<60 | uint64(m.gen&genMask)<<46 | uint64(m.place)<<34 | uint64(m.off)<<17 | uint64(m.n))
}

const genMask = 1<<14 - 1

func unpackNote(v int64) note {
	u := uint64(v)
	return note{turn(u >> 60), uint16(u >> 46 & genMask), int(u >> 34 & 0xfff), int(u >> 17 & 0x1ffff), int(u & 0x1ffff)}
}

// turn is what an exchange does.
type turn uint8

const (
	turnPlain  turn = iota // a message without an operation
	turnWrite              // the server checks what was written, when it has the message
	turnRead               // the read has to bring what is known
	turnAdd                // addition to a word of the place
	turnSwap               // swap of a word of the place
	turnShared             // addition to a word that all lanes add to
	turnBad                // a key, an address or a right that is not there: must be refused
	turns
)

// kindWritten is the kind of pattern that is written by RDMA.
const kindWritten uint32 = 0x57

// fillPattern fills b with the pattern that begins with x.
func fillPattern(b []byte, x uint64) {
	var word [8]byte
	for len(b) > 0 {
		putNumber(word[:], x)
		b = b[copy(b, word[:]):]
		x = next(x)
	}
}

// account is what became of everything that the sockets of a client sent.
type account struct {
	Messages  uint64 `json:"messages"` // messages sent, with an operation or without; those that had to be refused not counted
	Replies   uint64 `json:"replies"`
	Late      uint64 `json:"late"` // replies to messages that were reported dropped
	Writes    uint64 `json:"writes"`
	Reads     uint64 `json:"reads"`
	Atomics   uint64 `json:"atomics"`
	Bytes     uint64 `json:"bytes"` // written and read
	Refused   uint64 `json:"refused"`
	Dropped   uint64 `json:"dropped"` // exchanges lost with a connection
	Unsure    uint64 `json:"unsure"`  // dropped exchanges that had a message
	Adds      uint64 `json:"adds"`    // additions to shared words
	UnsureAdd uint64 `json:"unsure_adds"`
	Cuts      uint64 `json:"cuts"` // connections cut

	// Of a soak.
	Exchanges uint64 `json:"exchanges,omitempty"`
	Void      uint64 `json:"void,omitempty"`     // messages delivered to a life that has ended, without a reply
	Ended     uint64 `json:"ended,omitempty"`    // operations refused because the region's life had ended
	Regions   uint64 `json:"regions,omitempty"`  // regions that lanes have had
	Released  uint64 `json:"released,omitempty"` // ended regions that were found untouched since their end
	Lives     uint64 `json:"lives,omitempty"`    // lives of client sockets that ended with their daemon
	Kills     uint64 `json:"kills,omitempty"`    // processes killed
	Restarts  uint64 `json:"restarts,omitempty"` // daemons restarted
}

func (a *account) fields() []*uint64 {
	return []*uint64{
		&a.Messages, &a.Replies, &a.Late, &a.Writes, &a.Reads, &a.Atomics, &a.Bytes, &a.Refused, &a.Dropped, &a.Unsure, &a.Adds, &a.UnsureAdd, &a.Cuts,
		&a.Exchanges, &a.Void, &a.Ended, &a.Regions, &a.Released, &a.Lives, &a.Kills, &a.Restarts,
	}
}

func (a *account) add(b *account) {
	from := b.fields()
	for i, to := range a.fields() {
		*to += *from[i]
	}
}

// lane does one exchange at a time, with one of the server's sockets.
type lane struct {
	place  int // index among the places of all regions
	gen    uint16
	peer   int
	kind   turn
	silent bool
	number uint64 // number of the message
	off, n int
	fated  bool
	status rds.Status
	reply  bool // the reply has come
	over   bool // the end of the exchange has been accounted for
	known  [][]byte
	sure   []bool // whether known is in the place
	late   []bool // whether a message about the place may have come that was reported lost
	local  []byte
	result uint64
	want   uint64 // expected result
}

// turmoilSocket is a client socket: one goroutine.
type turmoilSocket struct {
	run   *muxRun
	s     *rds.Socket
	w     *Work
	peers []netip.AddrPort
	keys  []turmoilKeys
	rng   *rand.Rand
	v     *verifier
	lanes []lane
	buf   []byte
	acct  account
	count uint64 // exchanges of the measured phase
}

// turmoilKeys are those of a server socket.
type turmoilKeys struct {
	Region   rds.Cookie `json:"region"`
	ReadOnly rds.Cookie `json:"read_only"`
}

func newTurmoilSocket(r *muxRun, s *rds.Socket, i int) (*turmoilSocket, error) {
	w := r.c.work
	size := w.placeSize()
	mem, err := s.AllocMemory(w.Depth * size) // memory until the socket is closed
	if err != nil {
		return nil, err
	}
	t := &turmoilSocket{run: r, s: s, w: w, peers: r.c.addrs, keys: r.c.keys, rng: rand.New(rand.NewPCG(uint64(i), w.Seed)),
		v: newVerifier(s.LocalAddrPort(), kindReply), lanes: make([]lane, w.Depth), buf: make([]byte, w.maxSize())}
	for k := range t.lanes {
		l := &t.lanes[k]
		l.place, l.local = i*w.Depth+k, mem.B[k*size:][:size:size]
		for range t.peers {
			l.known, l.sure, l.late = append(l.known, make([]byte, size)), append(l.sure, true), append(l.late, false)
		}
	}
	return t, nil
}

// work exchanges until the run stops and everything is accounted for.
func (t *turmoilSocket) work() error {
	for i := range t.lanes {
		if err := t.begin(&t.lanes[i]); err != nil {
			return err
		}
	}
	for busy := len(t.lanes); busy > 0; {
		m, err := t.s.Recv(context.Background())
		if err != nil {
			return err
		}
		l, err := t.take(&m)
		m.Release()
		if err != nil {
			return err
		}
		if l == nil || !l.done() {
			continue
		}
		if err := t.end(l); err != nil {
			return err
		}
		switch t.run.phase.Load() {
		case phaseStop:
			busy--
			continue
		case phaseMeasure:
			if t.count++; t.count == 1 {
				t.run.counts()
			}
		}
		if err := t.begin(l); err != nil {
			return err
		}
	}
	return nil
}

// done tells whether nothing more is due to the exchange.
func (l *lane) done() bool {
	answered := l.reply || l.silent || l.fated && l.status != rds.StatusSuccess
	return l.fated && answered
}

// take finds the lane that a fate or a reply is for.
func (t *turmoilSocket) take(m *rds.Message) (*lane, error) {
	if m.Kind == rds.KindStatus {
		n := unpackNote(int64(m.Token))
		l, err := t.lane(n.place)
		if err != nil || l.gen != n.gen || l.fated {
			return nil, fmt.Errorf("verify: fate %d of exchange %d in place %d, which has none to come: %v", m.Status, n.gen, n.place, err)
		}
		l.fated, l.status = true, m.Status
		return l, nil
	}
	if m.Kind != rds.KindData || len(m.Data) != t.w.Reply {
		return nil, fmt.Errorf("verify: %v is no reply", m)
	}
	if err := t.v.check(m.From, m.Data); err != nil {
		return nil, err
	}
	n := unpackNote(stampOf(m.Data))
	l, err := t.lane(n.place)
	switch {
	case err != nil:
		return nil, err
	case l.gen != n.gen || l.over: // the reply is to a message whose fate was to be dropped
		t.acct.Late++
		return nil, nil
	case t.peers[l.peer] != m.From || l.silent || l.reply || l.kind == turnBad:
		return nil, fmt.Errorf("verify: reply from %v to exchange %d in place %d, which awaits none", m.From, n.gen, n.place)
	}
	l.reply = true
	t.acct.Replies++
	return l, nil
}

func (t *turmoilSocket) lane(place int) (*lane, error) {
	i := place - t.lanes[0].place
	if i < 0 || i >= len(t.lanes) {
		return nil, fmt.Errorf("verify: place %d is not ours", place)
	}
	return &t.lanes[i], nil
}
