package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"

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
		if err := s.client(ctx, c); err != nil {
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

// client serves one control connection.
func (s *Server) client(ctx context.Context, c net.Conn) error {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	defer c.Close()
	e := &session{server: s, lines: newLines(c)}
	defer e.end()
	for {
		var q request
		if err := e.lines.read(&q); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
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
	server   *Server
	lines    *lines
	provider rds.Provider // nil before hello
	hello    hello
	service  *service // nil between works
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
	case opClose:
		e.closeWork()
		return nil
	case opBye:
		return e.end()
	}
	return fmt.Errorf("unknown operation %q", q.Op)
}

func (e *session) begin(h *hello) error {
	switch {
	case h == nil || h.Version != controlVersion:
		return fmt.Errorf("this server speaks version %d of the control protocol", controlVersion)
	case e.provider != nil:
		return errors.New("second hello")
	}
	p, err := openProvider(e.server.Config, e.server.IP, h)
	if err != nil {
		return err
	}
	e.provider, e.hello = p, *h
	return nil
}

func (e *session) open(w *Work, t Transport, r *response) error {
	switch {
	case e.provider == nil:
		return errors.New("work before hello")
	case e.service != nil:
		return errors.New("the work before is still open")
	case w == nil || w.Batch < 1 || w.Batch > maxBatch || w.Peers > maxSockets || w.maxSize() > rds.MaxMessage:
		return errors.New("work out of bounds")
	}
	var once sync.Once
	fail := func(err error) {
		once.Do(func() { e.lines.write(response{Lost: true, Err: err.Error() + drops(e.provider)}) })
	}
	var err error
	if t == TCP {
		e.service, err = serveTCP(e.server.IP, w, tcpSettings{e.hello.Congestion, e.hello.Buffers}, fail)
	} else {
		e.service, err = serveRDS(e.provider, e.server.IP, w, fail)
	}
	if err != nil {
		e.service = nil
		return err
	}
	r.Addrs = e.service.addrs
	return nil
}

// drops names the counters of messages that the node has dropped, which may
// explain why one is missing.
func drops(p rds.Provider) string {
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
	s := snapshot{CPU: cpuTime()}
	if e.service != nil {
		s.Count = e.service.tally.n.Load()
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
	if e.provider == nil {
		return nil
	}
	err := e.provider.Close()
	e.provider = nil
	return err
}
