package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/rds-go/rds/rds"
)

// maxSockets bounds what a client may have a server bind.
const maxSockets = 1 << 15

// Server is the passive process.
type Server struct {
	// IP is the RDS address that works are served on.
	IP netip.Addr
	// Once ends Serve with its first client.
	Once bool
	// Log, if not nil, is called with a line for each client.
	Log func(string)
	// Socket is that of the rdsd to attach to if a client wants it; empty means
	// the default.
	Socket string
	// Config is the base of the nodes' settings, for tests.
	Config rds.Config
}

// Serve serves clients, one after the other, until ctx ends. It closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	defer l.Close()
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		s.log("client " + c.RemoteAddr().String())
		if err := s.client(ctx, c, &session{}); err != nil {
			s.log("client " + c.RemoteAddr().String() + ": " + err.Error())
		}
		if s.Once {
			return nil
		}
	}
}

func (s *Server) log(line string) {
	if s.Log != nil {
		s.Log(line)
	}
}

// ServeParent serves the process that has started this one, over its standard
// input and output, until the former ends.
func (s *Server) ServeParent() error {
	return s.client(context.Background(), pipes{os.Stdin, os.Stdout}, &session{parent: true})
}

// client serves one control connection; that of our parent may do more.
func (s *Server) client(ctx context.Context, c io.ReadWriteCloser, e *session) error {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	defer c.Close()
	e.server, e.lines = s, newLines(c)
	defer e.end()
	for {
		var q request
		if err := e.lines.read(&q); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
		}
		if q.Op == opPeer && e.soak != nil && q.Peer != nil {
			e.soak.learn(*q.Peer)
			continue
		}
		var r response
		if err := e.do(&q, &r); err != nil {
			r.Err = err.Error()
		}
		if err := e.lines.write(r); err != nil {
			return err
		}
	}
}

// session is a server's side of one control connection.
type session struct {
	server    *Server
	lines     *lines
	parent    bool      // the client has started this process for itself alone
	providers providers // nil before hello
	lent      bool      // the providers are another's, and stay open
	hello     hello
	service   *service // nil between works
	sender    *sender  // nil but while this process is one
	rdsd      *rdsd    // nil but in one that is a daemon
	soak      *soakProcess
}

func (e *session) do(q *request, r *response) error {
	switch q.Op {
	case opHello:
		return e.begin(q.Hello)
	case opOpen:
		return e.open(q.Work, q.Transport, r)
	case opSnap:
		r.Snap = e.snap()
		return nil
	case opConfirm:
		if e.service == nil {
			return errors.New("confirm without a work")
		}
		err := e.service.tally.wait(q.Count, confirmLimit)
		r.Snap = e.snap()
		return err
	case opSoak:
		return e.startSoak(q.Soak)
	case opClose:
		e.closeWork()
		return nil
	case opBye:
		return e.end()
	}
	switch {
	case q.Op == opStop && e.soak != nil:
		r.Snap = e.snap()
		var err error
		r.Journals, err = e.soak.stop()
		return err
	case e.parent:
		return e.serveParent(q, r)
	}
	return fmt.Errorf("unknown operation %q", q.Op)
}

// serveParent does what nobody but our parent may ask for.
func (e *session) serveParent(q *request, r *response) (err error) {
	switch q.Op {
	case opServe:
		e.rdsd, err = startRDSD(e.server.Config, e.server.IP, q.Hello)
	case opMemory:
		r.Snap = e.snap()
		r.Snap.Heap, r.Snap.Resident = memoryInUse()
	case opSend:
		c := &cell{work: q.Work, providers: e.providers, ip: e.server.IP, addrs: q.Addrs, keys: q.Keys, hello: &e.hello, transport: cmp.Or(q.Transport, RDS), hard: context.Background()}
		c.opts = &Options{TCPSettings: e.hello.TCPSettings}
		e.sender, err = startSender(c, q.First, e.failOnce())
	case opMeasure:
		e.sender.measure()
		r.Snap = e.snap()
	case opCut:
		var n int
		n, err = cutConnections()
		r.Snap.Count = uint64(n)
	case opStop:
		r.Snap = e.snap()
		r.Sent, err = e.sender.stop()
	default:
		err = fmt.Errorf("unknown operation %q", q.Op)
	}
	return err
}

func (e *session) begin(h *hello) error {
	switch {
	case h == nil || h.Version != controlVersion:
		return fmt.Errorf("this server speaks version %d of the control protocol", controlVersion)
	case e.providers != nil:
		return errors.New("second hello")
	}
	if !e.parent { // only a parent may say which rdsd of this host to use
		h.Socket = e.server.Socket
	}
	p, err := openProviders(e.server.Config, e.server.IP, h)
	if err != nil {
		return err
	}
	e.providers, e.hello = p, *h
	return nil
}

func (e *session) open(w *Work, t Transport, r *response) error {
	switch {
	case e.providers == nil || (t == Node || t == OverTCP) && e.providers[t] == nil:
		return errors.New("work before hello")
	case e.service != nil:
		return errors.New("the work before is still open")
	case w == nil || w.Batch < 1 || w.Batch > maxBatch || w.Peers > maxSockets || w.maxSize() > rds.MaxMessage:
		return errors.New("work out of bounds")
	case !w.fits(t, e.hello.Provider == providerNone):
		return errors.New("work out of bounds")
	}
	o := &e.hello.TCPSettings
	var err error
	switch t {
	case TCP:
		e.service, err = serveTCP(e.server.IP, w, o, e.failOnce())
	case IWARP, Plain, Running:
		if w.Kind == Atomic {
			e.service, err = serveVerbsAtomics(e.server.IP, w, o, e.failOnce())
		} else if w.Kind == Chernobyl {
			e.service, err = serveChernobyl(e.server.IP, w, t == Plain, o, e.failOnce())
		} else {
			e.service, err = serveVerbs(e.server.IP, w, o, e.failOnce())
		}
	case Node, OverTCP:
		e.service, err = serveRDS(e.providers[t], e.server.IP, w, e.failOnce())
	default:
		e.service, err = serveRDS(e.providers[RDS], e.server.IP, w, e.failOnce())
	}
	if err != nil {
		e.service = nil
		return err
	}
	r.Addrs, r.Keys = e.service.addrs, e.service.keys
	return nil
}

// startSoak has this process take part in a soak. Only a parent may say where files are.
func (e *session) startSoak(spec *soakSpec) (err error) {
	if e.providers[RDS] == nil || e.soak != nil || spec == nil || spec.Work == nil || !spec.Work.checkSoak() || spec.Journal != "" && !e.parent {
		return errors.New("work out of bounds")
	}
	tell := func(p soakPeer) { _ = e.lines.write(response{Life: &p}) } // who has started the soak ends it, not the other way round
	e.soak, err = startSoak(e.providers[RDS], e.server.IP, spec, e.hello.Provider == rds.ProviderDaemon, tell, e.failOnce())
	return err
}

// fits tells whether a server without sockets, or with, does a work over t.
func (w *Work) fits(t Transport, none bool) bool {
	switch w.Kind {
	case Stress:
		return !none && (t == RDS || t == Node) && !w.Ops
	case Atomic:
		return none == w.Verbs && (t == IWARP) == w.Verbs && t != TCP && w.checkAtomic()
	case RDMA:
		return none && (t == IWARP || t == TCP || t == Running && w.Stopped > 0) && w.checkRDMA()
	case Chernobyl:
		return w.fitsChernobyl(t, none)
	}
	return !none && t != IWARP && t != Plain && t != Running
}

// failOnce returns a function that tells the client of the first failure.
func (e *session) failOnce() func(error) {
	var once sync.Once
	return func(err error) {
		once.Do(func() { e.lines.write(response{Lost: true, Err: err.Error() + drops(e.providers[RDS])}) })
	}
}

// drops names the counters of messages that the node has dropped, which may
// explain why one is missing.
func drops(p rds.Provider) string {
	if p == nil { // an RDMA work
		return ""
	}
	info, err := p.Info()
	if err != nil {
		return ""
	}
	var text strings.Builder
	for _, c := range info.Counters {
		if c.Value > 0 && strings.Contains(c.Name, "drop") {
			fmt.Fprintf(&text, " (%s %d)", c.Name, c.Value)
		}
	}
	return text.String()
}

func (e *session) snap() snapshot {
	s := snapshot{At: time.Since(epoch), CPU: cpuTime()}
	switch {
	case e.service != nil:
		s.Count, s.Sum = e.service.tally.n.Load(), e.service.sum()
	case e.sender != nil:
		s.Count = e.sender.flooded.Load()
	case e.soak != nil:
		s.Count, s.Conns = e.soak.exchanges.Load(), connsOf(e.providers[RDS])
	}
	return s
}

func (e *session) closeWork() {
	if e.service != nil {
		e.service.close()
		e.service = nil
	}
}

func (e *session) end() error {
	e.closeWork()
	if e.soak != nil {
		_ = e.soak.end() // may be the second call, or one in a run that is lost
	}
	if e.sender != nil {
		e.sender.close()
	}
	if e.lent {
		return nil
	}
	err := errors.Join(e.providers.close(), e.rdsd.close())
	e.providers, e.rdsd = nil, nil
	return err
}
