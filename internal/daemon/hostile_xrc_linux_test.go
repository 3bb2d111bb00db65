//go:build live

package daemon

import (
	"encoding/binary"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/rds-go/rds/internal/client"
	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/work"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc"
)

// schemer is a hostile application with objects of XRC. Its memory area has, from the start:
// the queue of posts, completions, receives, requests, and 4 KiB of a region.
type schemer struct {
	*evil
	mem      []byte // the memory area
	pd, cq   uint32
	srq, ini uint32
	region   uint32
	srqn     uint32
	key      mr.Key
	receives *ipc.Queue
	requests *ipc.Queue
	posts    *ipc.Queue
}

const (
	schemePosts    = 0
	schemeCQ       = 4 << 10
	schemeReceives = 16 << 10
	schemeRequests = 32 << 10
	schemeRegion   = 48 << 10
	schemeEntries  = 16
	schemeNone     = 0x1fffff // number of no queue
)

func scheme(t testing.TB, path string) *schemer {
	t.Helper()
	e := intrude(t, path, ipc.FeatureObjects)
	x := &schemer{evil: e, mem: e.raw[len(e.raw)-e.seg.Memory:]}
	x.must(&ipc.XRCCall{Op: ipc.XRCPosts, Offset: schemePosts, Entries: schemeEntries})
	x.pd = x.must(&ipc.XRCCall{Op: ipc.XRCAllocPD}).Object
	x.cq = x.must(&ipc.XRCCall{Op: ipc.XRCCreateCQ, Offset: schemeCQ, Entries: 4 * schemeEntries}).Object
	dom := x.must(&ipc.XRCCall{Op: ipc.XRCOpenDomain, Flags: os.O_CREATE}).Object
	q := x.must(&ipc.XRCCall{Op: ipc.XRCCreateSRQ, Domain: dom, PD: x.pd, CQ: x.cq, Offset: schemeReceives, Entries: schemeEntries})
	m := x.must(&ipc.XRCCall{Op: ipc.XRCRegister, PD: x.pd, Offset: schemeRegion, Length: 4096, Access: uint32(mr.LocalWrite)})
	x.srq, x.srqn, x.region, x.key = q.Object, q.Number, m.Object, mr.Key(m.Number)
	x.must(&ipc.XRCCall{Op: ipc.XRCAdvertise, Service: uint64(x.w.Session), Domain: dom, SRQ: x.srq})
	x.receives = x.queue(schemeReceives)
	x.posts, _ = ipc.NewQueue(x.mem[schemePosts:][:ipc.QueueSize(work.PostSize, schemeEntries)], work.PostSize, schemeEntries, true)
	return x
}

// word64 is a word of the memory area.
func (x *schemer) word64(off int) *atomic.Uint64 { return x.word(len(x.raw) - x.seg.Memory + off) }

func (x *schemer) queue(at int) *ipc.Queue {
	q, ok := ipc.NewQueue(x.mem[at:][:ipc.QueueSize(work.RequestSize, schemeEntries)], work.RequestSize, schemeEntries, true)
	if !ok {
		x.Fatal("no queue")
	}
	return q
}

// connect makes the initiator.
func (x *schemer) connect(far *xrcHost, service uint64) {
	x.Helper()
	r := x.must(&ipc.XRCCall{Op: ipc.XRCConnect, PD: x.pd, CQ: x.cq, Remote: far.here, Service: service, Offset: schemeRequests, Entries: schemeEntries})
	x.ini, x.requests = r.Object, x.queue(schemeRequests)
}

func (x *schemer) xrc(c *ipc.XRCCall) ipc.Reply {
	x.Helper()
	return x.ask(ipc.Request{Op: ipc.CallXRC, XRC: c})
}

func (x *schemer) must(c *ipc.XRCCall) *ipc.XRCReply {
	x.Helper()
	r := x.xrc(c)
	if r.Error != "" || r.XRC == nil {
		x.Fatalf("%s: %s", c.Op, r.Error)
	}
	return r.XRC
}

// post tells of a queue.
func (x *schemer) post(object uint32) {
	work.PutPost(x.posts.Record(0), object)
	x.posts.Advance(1)
	x.ring()
}

// receive posts a receive that names some memory.
func (x *schemer) receive(g iwarp.SGE) {
	work.PutReceive(x.receives.Record(0), &iwarp.ReceiveRequest{ID: 5, SGE: []iwarp.SGE{g}})
	x.receives.Advance(1)
	x.post(x.srq)
}

// request posts a request as it is.
func (x *schemer) request(change func(record []byte)) {
	work.PutRequest(x.requests.Record(0), &iwarp.WorkRequest{ID: 6, Queue: schemeNone, Inline: []byte("x")})
	change(x.requests.Record(0))
	x.requests.Advance(1)
	x.post(x.ini)
}

// completion is the first one that comes.
func (x *schemer) completion() iwarp.Completion {
	x.Helper()
	rdstest.Eventually(x, "a completion", func() bool { return binary.NativeEndian.Uint64(x.mem[schemeCQ:]) > 0 })
	return work.LoadCompletion(x.mem[schemeCQ+ipc.QueueSize(0, 0):])
}

// xrcHost is a host with a daemon.
type xrcHost struct {
	here netip.Addr
	path string
	svc  *Service
}

func newXRCHost(t testing.TB, l *lab) *xrcHost {
	t.Helper()
	h := &xrcHost{here: rdstest.NewAddr()}
	h.svc, h.path = serving(t, l.node(config.Node{Wire: config.WireXRC, Serves: true, Addresses: []netip.Addr{h.here}}), config.Service{MemoryArena: 1 << 20})
	return h
}

// schemes are attacks by means of objects of XRC. Those that set ends are the end of the session.
var schemes = []struct {
	name string
	ends bool
	run  func(t *testing.T, x *schemer)
}{
	{"nothing", false, func(*testing.T, *schemer) {}},
	{"posts run back", true, func(_ *testing.T, x *schemer) { x.word64(schemePosts).Store(1 << 63); x.ring() }},
	{"too many posts", true, func(_ *testing.T, x *schemer) { x.word64(schemePosts).Store(schemeEntries + 1); x.ring() }},
	{"posts of nothing", false, func(_ *testing.T, x *schemer) {
		for _, n := range []uint32{0, 1 << 31, 1<<32 - 1, x.pd, x.region} {
			x.post(n)
		}
	}},
	{"too many receives", true, func(_ *testing.T, x *schemer) { x.word64(schemeReceives).Store(schemeEntries + 1); x.post(x.srq) }},
	{"a request as a receive", true, func(_ *testing.T, x *schemer) {
		work.PutRequest(x.receives.Record(0), &iwarp.WorkRequest{Queue: 7})
		x.receives.Advance(1)
		x.post(x.srq)
	}},
	{"a receive with the memory of others", false, func(t *testing.T, x *schemer) {
		for _, k := range []mr.Key{0, x.key + 1, x.key + 0x100, 1<<32 - 1} {
			x.receive(iwarp.SGE{Key: k, Addr: schemeRegion, Len: 8})
		}
		if c := x.completion(); c.Status != iwarp.LocalProtection || c.ID != 5 {
			t.Errorf("%+v", c)
		}
	}},
	{"an operation that is none", true, func(_ *testing.T, x *schemer) { x.request(func(b []byte) { b[8] = 77 }) }},
	{"a receive as a request", true, func(_ *testing.T, x *schemer) { x.request(func(b []byte) { b[8] = byte(iwarp.OpReceive) }) }},
	{"a thousand pieces", true, func(_ *testing.T, x *schemer) { x.request(func(b []byte) { b[10], b[11] = 255, 0 }) }},
	{"inline beyond the record", true, func(_ *testing.T, x *schemer) { x.request(func(b []byte) { b[11] = 255 }) }},
	{"a message on Writes that are none", false, func(t *testing.T, x *schemer) {
		x.request(func(b []byte) { b[12] = 9 })
		if c := x.completion(); c.Status != iwarp.LocalQPError {
			t.Errorf("%+v", c)
		}
	}},
	{"a message to a queue of RDS", false, func(t *testing.T, x *schemer) {
		x.request(func(b []byte) { binary.NativeEndian.PutUint32(b[16:], 0x200000) })
		if c := x.completion(); c.Status != iwarp.LocalQPError {
			t.Errorf("%+v", c)
		}
	}},
	{"memory of others sent", false, func(t *testing.T, x *schemer) {
		x.request(func(b []byte) {
			work.PutRequest(b, &iwarp.WorkRequest{Queue: schemeNone, SGE: []iwarp.SGE{{Key: x.key + 0x100, Addr: schemeRegion, Len: 8}}})
		})
		if c := x.completion(); c.Status != iwarp.LocalProtection {
			t.Errorf("%+v", c)
		}
	}},
	{"completions taken that never came", false, func(t *testing.T, x *schemer) {
		x.word64(schemeCQ + 0x80).Store(1 << 40)
		for n := range uint64(4 * schemeEntries) {
			x.request(func([]byte) {})
			rdstest.Eventually(t, "the completion", func() bool { return x.word64(schemeCQ).Load() > n })
		}
		x.request(func([]byte) {})
		r := x.must(&ipc.XRCCall{Op: ipc.XRCEvent}) // of the overrun
		x.must(&ipc.XRCCall{Op: ipc.XRCAck, Serial: r.Serial})
	}},
	{"one queue on another", false, func(t *testing.T, x *schemer) {
		x.must(&ipc.XRCCall{Op: ipc.XRCCreateCQ, Offset: schemeCQ, Entries: 64})
		x.must(&ipc.XRCCall{Op: ipc.XRCCreateCQ, Offset: schemePosts, Entries: 8})
		x.must(&ipc.XRCCall{Op: ipc.XRCRegister, PD: x.pd, Offset: 0, Length: schemeRegion, Access: uint32(mr.LocalWrite)})
	}},
	{"calls that make no sense", false, func(t *testing.T, x *schemer) {
		for _, c := range []*ipc.XRCCall{
			nil, {}, {Op: "nonsense"}, {Op: ipc.XRCPosts, Entries: 8}, {Op: ipc.XRCCreateCQ, Entries: -1}, {Op: ipc.XRCCreateCQ, Entries: 1 << 30},
			{Op: ipc.XRCCreateCQ, Entries: 3}, {Op: ipc.XRCCreateCQ, Offset: 4, Entries: 8}, {Op: ipc.XRCCreateCQ, Offset: 1<<32 - 8, Entries: 8},
			{Op: ipc.XRCRegister, PD: x.pd, Offset: 1 << 31, Length: 1 << 31}, {Op: ipc.XRCRegister, PD: x.pd}, {Op: ipc.XRCRegister, PD: x.cq, Length: 8},
			{Op: ipc.XRCRegister, PD: x.pd, Length: 8, Access: 0xff}, {Op: ipc.XRCDestroy, Object: x.cq}, {Op: ipc.XRCDestroy, Object: 1 << 20},
			{Op: ipc.XRCAck, Serial: 1}, {Op: ipc.XRCJoin, Object: x.srq}, {Op: ipc.XRCModifyTarget, Attr: []byte(`"x"`)}, {Op: ipc.XRCQueryTarget, Domain: x.srq},
		} {
			if r := x.xrc(c); r.Error == "" {
				t.Errorf("%+v is done", c)
			}
		}
	}},
	{"objects without end", false, func(t *testing.T, x *schemer) {
		for n := range 1 << 12 {
			if r := x.xrc(&ipc.XRCCall{Op: ipc.XRCAllocPD}); r.Errno == int(syscall.ENOMEM) {
				return
			} else if n > 1000 {
				t.Fatal("no limit")
			}
		}
	}},
}

// Whatever an application does to its objects of XRC, the daemon survives, its neighbor is served, and
// what is impossible ends the session.
func TestHostileXRC(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	near, far := newXRCHost(t, l), newXRCHost(t, l)
	other := verbsPair(t, near, far) // a neighbor, whose traffic goes on
	for _, a := range schemes {
		t.Run(a.name, func(t *testing.T) {
			x := scheme(t, near.path)
			defer x.leave()
			x.connect(far, other.service)
			a.run(t, x)
			if a.ends {
				rdstest.Eventually(t, "the end of the session", x.thrownOut)
			} else if r := x.ask(ipc.Request{Op: ipc.CallResolve, Local: near.here, Remote: far.here}); r.Error != "" {
				t.Errorf("the session does not go on: %s", r.Error)
			}
			other.exchange(t)
		})
	}
}

// neighbor is a well-behaved application.
type neighbor struct {
	service uint64
	send    *xrc.Initiator
	sent    *xrc.CQ
	queue   uint32
	got     *xrc.CQ
	srq     *xrc.SRQ
	mem     *xrc.Region
}

func verbsSession(t testing.TB, c *client.Client) (*xrc.Session, *xrc.PD, *xrc.CQ) {
	t.Helper()
	o, err := c.Objects()
	rdstest.Must(t, err)
	s, err := xrc.Open(t.Context(), o)
	rdstest.Must(t, err)
	pd, err := s.AllocPD()
	rdstest.Must(t, err)
	cq, err := s.CreateCQ(256)
	rdstest.Must(t, err)
	return s, pd, cq
}

func verbsPair(t testing.TB, near, far *xrcHost) *neighbor {
	t.Helper()
	return verbsPairOf(t, dialed(t, near.path), far)
}

// verbsPairOf is verbsPair for a sender that is attached already.
func verbsPairOf(t testing.TB, near *client.Client, far *xrcHost) *neighbor {
	t.Helper()
	n := &neighbor{service: 1 << 40}
	s, pd, cq := verbsSession(t, dialed(t, far.path))
	dom, err := s.OpenDomain(nil, os.O_CREATE)
	rdstest.Must(t, err)
	if n.srq, err = s.CreateSRQ(xrc.SRQAttr{Domain: dom, PD: pd, CQ: cq, MaxWR: 1}); err != nil {
		t.Fatal(err)
	}
	if n.mem, err = pd.Alloc(64, mr.LocalWrite); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Advertise(xrc.ServiceAttr{ID: n.service, Domain: dom, SRQ: n.srq}); err != nil {
		t.Fatal(err)
	}
	n.got, n.queue = cq, n.srq.Num()
	p, ppd, pcq := verbsSession(t, near)
	if n.send, err = p.Connect(rdstest.Background(t), xrc.InitiatorAttr{PD: ppd, CQ: pcq, Remote: far.here, Service: n.service}); err != nil {
		t.Fatal(err)
	}
	n.sent = pcq
	return n
}

// exchange sends a message, which comes though others may send to the same queue.
func (n *neighbor) exchange(t testing.TB) {
	t.Helper()
	poll := func(cq *xrc.CQ) (c [1]iwarp.Completion) {
		t.Helper()
		for cq.Poll(c[:]) == 0 {
			rdstest.Must(t, cq.Wait(rdstest.Background(t)))
		}
		if c[0].Status != iwarp.Success {
			t.Fatalf("%+v", c[0])
		}
		return c
	}
	if _, err := n.send.PostSend(iwarp.WorkRequest{ID: 2, Flags: iwarp.Signaled, Queue: n.queue, Inline: []byte("fine")}); err != nil {
		t.Fatal(err)
	}
	for came := ""; came != "fine"; {
		if _, err := n.srq.PostReceive(iwarp.ReceiveRequest{ID: 1, SGE: []iwarp.SGE{n.mem.SGE(0, 64)}}); err != nil {
			t.Fatal(err)
		}
		c := poll(n.got)
		if c[0].Target == 0 {
			t.Errorf("%+v names no target", c[0])
		}
		came = string(n.mem.Bytes()[:c[0].Len])
	}
	poll(n.sent)
}
