package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/rds-go/rds/internal/cli"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
)

// regionServer serves regions to many connections, each on a goroutine.
type regionServer struct {
	dev     *iwarp.Device
	pd      *iwarp.PD
	ln      *iwarp.Listener
	o       *serveOptions
	params  iwarp.ConnParams
	regions map[string]*iwarp.MR
	watch   *watcher
	out     *printer

	connections // counts as failed the connections that could not be accepted

	mu  sync.Mutex
	qps map[*iwarp.QP]struct{} // guarded by mu; connected
}

func newRegionServer(dev *iwarp.Device, o *serveOptions, params iwarp.ConnParams, at netip.AddrPort, w *watcher, out *printer) (*regionServer, error) {
	s := &regionServer{dev: dev, o: o, params: params, regions: make(map[string]*iwarp.MR), watch: w, out: out, qps: make(map[*iwarp.QP]struct{})}
	var err error
	if s.pd, err = dev.AllocPD(); err != nil {
		return nil, err
	}
	other, err := dev.AllocPD()
	if err != nil {
		return nil, err
	}
	for i := range o.regions {
		r := &o.regions[i]
		pd := s.pd
		if r.other {
			pd = other
		}
		mem := make([]byte, r.size)
		pattern(mem, i)
		m, err := pd.RegMR(mem, r.rights, uint64(i+1)<<32) // far apart, and none at 0
		if err != nil {
			return nil, err
		}
		s.regions[r.name] = m
		out.print(regionLine(r, m))
	}
	if s.ln, err = dev.Listen(at); err != nil {
		return nil, err
	}
	out.print(listening{Type: "listening", Address: s.ln.Addr()})
	return s, nil
}

// close stops listening; closing the device does the rest.
func (s *regionServer) close() { _ = s.ln.Close() }

// run serves until ctx ends or that many connections, if not 0, have ended.
func (s *regionServer) run(ctx context.Context, connections int) error {
	err := s.serve(ctx, s.ln, connections, s.connection)
	switch {
	case ctx.Err() != nil:
		return nil
	case err == nil && s.failed.Load() > 0:
		return cli.Exit(cli.StatusFailed) // printed lines have told why
	}
	return err
}

// connection serves one to its end.
func (s *regionServer) connection(ctx context.Context, id int, in *iwarp.Incoming) {
	c, err := s.accept(ctx, in)
	if err != nil {
		s.failed.Add(1)
		s.out.print(problem{Type: "error", Connection: id, Error: err.Error()})
		return
	}
	defer c.close()
	s.mu.Lock()
	s.qps[c.qp] = struct{}{}
	s.mu.Unlock()
	s.out.print(connected(id, c.est))
	defer context.AfterFunc(ctx, func() { _ = c.qp.Disconnect() })()

	over, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.wg.Go(func() { <-c.qp.Done(); cancel() })
	for {
		got, err := c.next(over)
		if err != nil {
			break
		}
		s.received(id, c, &got)
	}
	s.mu.Lock()
	delete(s.qps, c.qp)
	s.mu.Unlock()
	line := endLine(id, c.qp.Err(), s.watch.take(c.qp))
	line.Flushed = c.flushed
	s.out.print(line)
}

// received prints a completion and posts the request again. What is flushed at
// the end is only counted.
func (s *regionServer) received(id int, c *receiving, got *iwarp.Completion) {
	if got.Status == iwarp.Flushed {
		c.flushed++
		return
	}
	line := completionLine(id, got.Op, got)
	if got.Status == iwarp.Success {
		if got.Op == iwarp.OpImmediate {
			line.Immediate = hexOf(got.Immediate)
		} else {
			line.Hash = sum(c.slot(int(got.ID))[:got.Len])
		}
		_ = c.post(int(got.ID)) // There is room: the completed request has left its place.
	}
	s.out.print(line)
}

// receiving is a connection with receive requests.
type receiving struct {
	*endpoint
	est     *iwarp.Established
	buf     *iwarp.MR // nil without requests
	length  int
	flushed int
}

func (s *regionServer) accept(ctx context.Context, in *iwarp.Incoming) (*receiving, error) {
	want := &s.o.receive
	e, err := newEndpoint(s.dev, s.pd, 1, max(want.count, 1))
	if err != nil {
		return nil, errors.Join(err, in.Reject(nil))
	}
	c := &receiving{endpoint: e, length: want.length}
	if want.count > 0 {
		c.buf, err = s.pd.RegMR(make([]byte, max(want.count*want.length, 1)), mr.LocalWrite, 0)
	}
	for i := 0; i < want.count && err == nil; i++ {
		err = c.post(i)
	}
	if err != nil {
		err = errors.Join(err, in.Reject(nil))
	} else {
		c.est, err = in.Accept(ctx, c.qp, s.params)
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *receiving) slot(i int) []byte { return c.buf.Bytes()[i*c.length:][:c.length] }

func (c *receiving) post(i int) error {
	_, err := c.qp.PostReceive(iwarp.ReceiveRequest{ID: uint64(i), SGE: []iwarp.SGE{c.buf.SGE(i*c.length, c.length)}})
	return err
}

func (c *receiving) close() {
	c.endpoint.close()
	dereg(c.buf)
}

// answer is the line that answers a command.
type answer struct {
	Type  string `json:"type"` // hash, deregistered, unknown
	Name  string `json:"name"` // name of the region; unknown: the line received
	Hash  string `json:"hash,omitzero"`
	Error string `json:"error,omitzero"`
}

// deregTimeout bounds the wait for others to leave a region.
const deregTimeout = 10 * time.Second

// command obeys lines until the input ends. It calls quit if one says so.
func (s *regionServer) command(ctx context.Context, in io.Reader, quit func()) {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		verb, name, _ := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		m := s.regions[name]
		switch {
		case verb == "hash" && m != nil:
			s.out.print(answer{Type: "hash", Name: name, Hash: sum(m.Bytes())})
		case verb == "dereg" && m != nil:
			ctx, cancel := context.WithTimeout(ctx, deregTimeout)
			a := answer{Type: "deregistered", Name: name}
			if err := m.Dereg(ctx); err != nil {
				a.Error = err.Error()
			}
			cancel()
			s.out.print(a)
		case verb == "close":
			s.disconnect()
		case verb == "quit":
			quit()
		default:
			s.out.print(answer{Type: "unknown", Name: lines.Text()})
		}
	}
}

// disconnect ends all connections there are.
func (s *regionServer) disconnect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for q := range s.qps {
		_ = q.Disconnect()
	}
}
