package iwarp

import (
	"encoding/binary"
	"runtime"
	"sync/atomic"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp/ddp"
	"github.com/rds-go/rds/transport/iwarp/mpa"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
)

// streamLeast is the FPDU from which on a payload is placed as it comes, without
// waiting for its end, if no CRC has to be checked first.
const streamLeast = 4 << 10

// headMost is what must be there of an FPDU to know where its payload belongs.
const headMost = mpa.HeaderLen + ddp.UntaggedLen

// receiver is the receiving half of a stream. It is the event loop's, but for
// the atomics and what flushed reads after the end.
//
// FPDUs that lie whole in what was read are taken from there. Of others a CRC
// connection collects all in a staging buffer (RFC 5044 section 6: nothing is
// placed before the CRC was found right); without a CRC the payload goes
// straight to its place, also from the socket, see space.
type receiver struct {
	s       *stream
	reader  *mr.Reader
	crc     bool
	markers *mpa.Parser // parses a stream with markers, instead of the fields below
	ops     rdmap.Ops
	dead    bool
	opening bool // the segment at hand is the first that the peer has sent

	head  [headMost]byte
	have  int      // bytes of the FPDU in head, then in stage
	want  int      // length of the FPDU, 0 if not known yet
	stage *buf.Buf // the whole FPDU, collected
	sink  sink     // place of the FPDU's payload, if the FPDU is not collected
	left  int      // bytes of payload to come
	skip  int      // bytes of padding and CRC to come

	sends, requests, terminates, atomics ddp.Queue
	writes, responses                    ddp.Run
	write                                mr.Use      // the Write that writes has begun
	recv                                 receiveSlot // receive request of the open message
	filling                              bool        // recv is in use
	rtr                                  bool        // an empty Send would be the peer's RTR message

	slots    int           // size of irq
	irq      []inquiry     // a ring: requests of the peer not answered yet; nil before the first request
	asked    atomic.Uint64 // requests received, ever
	answered atomic.Uint64 // responses received, ever
	kick     bool          // the transmitter has something to do
	acked    bool          // the peer has acknowledged frames
	comps    []Completion
}

func (r *receiver) init(s *stream, set *mpa.Settled) {
	r.s = s
	r.reader = s.dev.regions.NewReader("iwarp receive", s.stuck)
	r.crc = set.CRC
	r.ops = rdmap.OpsRFC5040
	if !s.dev.cfg.NoExtensions {
		r.ops |= rdmap.OpsRFC7306
	}
	r.slots = set.ReadSlots()
	r.rtr = s.ln != nil && set.PeerToPeer && set.RTR&mpa.RTRSend != 0
	if set.ReceiveMarkers {
		r.markers = &mpa.Parser{CRC: set.CRC, Markers: true}
	}
}

// feed takes bytes of the stream.
func (r *receiver) feed(b []byte) {
	if r.markers != nil {
		if !r.dead {
			if err := r.markers.Feed(b, r.ulpduOrEnd); err != nil && !r.dead {
				r.refuse(rdmap.CauseOf(err), nil)
			}
		}
		return
	}
	for len(b) > 0 && !r.dead {
		switch {
		case r.left > 0:
			n := min(r.left, len(b))
			r.put(b[:n])
			b = b[n:]
		case r.skip > 0:
			n := min(r.skip, len(b))
			r.skip -= n
			b = b[n:]
		case r.have == 0 && len(b) >= mpa.HeaderLen && len(b) >= mpa.FPDULen(int(binary.BigEndian.Uint16(b))):
			n := mpa.FPDULen(int(binary.BigEndian.Uint16(b)))
			r.fpdu(b[:n])
			b = b[n:]
		default:
			b = b[r.collect(b):]
		}
	}
}

// collect takes bytes of an FPDU that has not come whole.
func (r *receiver) collect(b []byte) (n int) {
	if r.stage != nil {
		n = copy(r.stage.B[r.have:r.want], b)
		r.have += n
		r.staged()
		return n
	}
	need := mpa.HeaderLen
	if r.want > 0 {
		need = min(headMost, r.want)
	}
	n = copy(r.head[r.have:need], b)
	r.have += n
	if r.have < need {
		return n
	}
	if r.want == 0 {
		r.want = mpa.FPDULen(int(binary.BigEndian.Uint16(r.head[:])))
		return n
	}
	if r.crc || r.want < streamLeast {
		r.stage = r.s.dev.pool.Get(r.want)
		copy(r.stage.B, r.head[:r.have])
		r.staged()
		return n
	}
	r.stream()
	return n
}

// staged ends the FPDU in the staging buffer if it is whole.
func (r *receiver) staged() {
	if r.have < r.want {
		return
	}
	r.fpdu(r.stage.B[:r.want])
	r.unstage()
}

func (r *receiver) unstage() {
	if r.stage != nil {
		r.stage.Release()
		r.stage = nil
	}
	r.have, r.want = 0, 0
}

// stream begins to place the payload of the FPDU whose header is in head.
func (r *receiver) stream() {
	n := int(binary.BigEndian.Uint16(r.head[:]))
	h := ddp.HeaderLen(r.head[mpa.HeaderLen])
	early := r.head[mpa.HeaderLen+h : r.have] // part of the payload that came together with the header
	var seg rdmap.Segment
	ulpdu := r.head[mpa.HeaderLen : mpa.HeaderLen+h]
	if err := seg.Parse(ulpdu, r.ops); err != nil {
		r.refuseParsed(seg.Op, err, ulpdu, n)
		return
	}
	r.left, r.skip = n-h, r.want-mpa.HeaderLen-n
	r.have, r.want = 0, 0
	if !r.begin(&seg, ulpdu, r.left) || !r.reserve() {
		return
	}
	r.put(early)
}

// put places payload of the FPDU that is being streamed.
func (r *receiver) put(p []byte) {
	if !r.place(p) {
		return
	}
	if r.left -= len(p); r.left == 0 {
		r.s.arrived()
		r.finish()
	}
}

// fpdu takes a whole FPDU without markers.
func (r *receiver) fpdu(f []byte) {
	if r.crc && mpa.CRC(f[:len(f)-mpa.CRCLen]) != mpa.GetCRC(f[len(f)-mpa.CRCLen:]) {
		r.refuse(rdmap.CauseMPACRC, nil)
		return
	}
	r.ulpdu(f[mpa.HeaderLen : mpa.HeaderLen+int(binary.BigEndian.Uint16(f))])
}

// ulpduOrEnd is what the parser of a stream with markers calls.
func (r *receiver) ulpduOrEnd(u []byte) error {
	r.ulpdu(u)
	if r.dead {
		return errEnded
	}
	return nil
}

// ulpdu takes a whole DDP segment.
func (r *receiver) ulpdu(u []byte) {
	r.s.arrived()
	var seg rdmap.Segment
	if err := seg.Parse(u, r.ops); err != nil {
		r.refuseParsed(seg.Op, err, u, len(u))
		return
	}
	if r.begin(&seg, u, len(seg.Payload)) && r.place(seg.Payload) {
		r.finish()
	}
}

// space is where the next bytes belong, for a read from the socket: the rest of
// a payload that is being placed, or of an FPDU that is being collected.
func (r *receiver) space() (dst []byte, beyond int) {
	switch {
	case r.dead:
	case r.left > 0 && r.sink.drop:
	case r.left > 0 && r.sink.feed != nil:
		mem, last := r.sink.feed.Space()
		if len(mem) == 0 {
			return nil, 0
		}
		if len(mem) > r.left {
			mem, last = mem[:r.left], true
		}
		if last && len(mem) == r.left {
			beyond = r.skip + r.next()
		}
		return mem, beyond
	case r.left > 0:
		if !r.enter() { // left again when the memory is filled
			return nil, 0
		}
		mem, fault := r.find(r.left)
		if fault != mr.None {
			r.leave()
			r.fault(fault)
			return nil, 0
		}
		if len(mem) == r.left {
			beyond = r.skip + r.next()
		}
		return mem, beyond
	case r.stage != nil && r.want-r.have >= streamLeast:
		return r.stage.B[r.have:r.want], mpa.FPDULen(ddp.TaggedLen)
	}
	return nil, 0
}

// next is how much after an FPDU is worth reading with it: the header of another
// one that goes straight to its place, or as much as comes.
func (r *receiver) next() int {
	if r.sink.last {
		return 32 << 10
	}
	return headMost
}

// filled tells how much was read.
func (r *receiver) filled(n int) {
	if r.stage != nil {
		r.have += n
		r.staged()
		return
	}
	if to := r.sink.feed; to != nil {
		r.s.shared.sink.fed = true
		to.Filled(n)
	} else {
		r.leave()
	}
	if n == 0 {
		return
	}
	r.sink.moved(n)
	if r.left -= n; r.left == 0 {
		r.s.arrived()
		r.finish()
	}
}

// flush ends a burst: completions are visible, and the transmitter runs if
// something made work for it.
func (r *receiver) flush() {
	r.push()
	answers := false
	if x := r.s.shared; x != nil && x.params.Sink != nil && !r.dead {
		answers = x.sink.fed
		x.sink.taking = x.sink.ready.Load()
		x.sink.fed = false
		x.params.Sink.Flush()
		// Only now: a CREDIT that leaves earlier would outlive a process that is killed
		// before the sink has passed the messages on. And before the transmitter runs,
		// so that what the program answers takes it along.
		r.acknowledge()
		r.grantOctets()
		if x.octets.woken {
			x.octets.woken = false
			x.params.Sink.Writable()
		}
		if late := x.frames.late.Load() && x.frames.late.Swap(false); late || r.acked {
			r.acked = false
			x.params.Sink.Acked()
		}
	} else {
		r.acknowledge()
	}
	s, q := r.s, r.s.q
	if answers && r.kick {
		// Yield once: if the program replies at once, our acknowledgements ride on the
		// reply.
		runtime.Gosched()
	}
	q.mu.Lock()
	q.streak.heard = true
	if x := s.shared; x != nil && x.refusals.told > 0 {
		x.refusals.askLocked(s)
	}
	if q.state == StateSQD && !s.drained {
		s.drained, r.kick = true, true
	}
	run := false
	if r.kick {
		r.kick = false
		q.completeLocked()
		run = !q.over && !q.corked && s.kickLocked() // while corked, Uncork sends what is posted
	}
	q.mu.Unlock()
	if run {
		s.transmit()
	}
}

// complete adds a receive completion.
func (r *receiver) complete(c Completion) {
	c.QP = r.s.q
	r.comps = append(r.comps, c)
	if len(r.comps) >= 64 {
		r.push()
	}
}

func (r *receiver) push() {
	if len(r.comps) > 0 {
		r.s.q.flushReceives(r.comps)
		r.comps = r.comps[:0]
	}
}

// end ends the receiver; what still comes is dropped.
func (r *receiver) end() {
	r.push()
	r.dead = true
	if r.s.shared != nil {
		r.endShared()
	}
	r.left, r.skip = 0, 0
	r.unstage()
}

// flushed returns the completion of the receive request whose message was
// coming, if there was one.
func (r *receiver) flushed(f failure) []Completion {
	if !r.filling {
		return nil
	}
	c := Completion{ID: r.recv.id, QP: r.s.q, Op: OpReceive, Status: Flushed}
	if f.receive {
		c.Status, c.Vendor = f.status, f.vendor
	}
	return []Completion{c}
}
