package bench

import "fmt"

// errDescriptors says that a mux baseline needs more connections than this
// process may open.
type errDescriptors struct{ need, have int }

func (e errDescriptors) Error() string {
	return fmt.Sprintf("no baseline: %d connections need more than the %d descriptors allowed (ulimit -n)", e.need, e.have)
}

// descriptors checks whether this process may open what the work needs.
func (w *Work) descriptors(t Transport) error {
	if need, have := w.Sockets*w.Peers, descriptorLimit(); t == TCP && need+64 > have {
		return errDescriptors{need, have}
	}
	return nil
}

// tcpPort is what a program without multiplexing has: a connection to each destination,
// and a goroutine for each connection's replies.
type tcpPort struct {
	m       *muxSocket
	flows   []*stream
	replies chan tcpReply // there is room for all outstanding and an error of each connection
	buf     []byte
}

type tcpReply struct {
	size       int
	stamp, now int64
	err        error
}

func (p *tcpPort) ask(n int, now int64) (int, error) {
	for range n {
		i := p.m.destination(len(p.flows))
		err := p.flows[i].send(p.m.request(p.buf, p.m.dests[0], now))
		if err == nil {
			err = p.flows[i].flush()
		}
		if err != nil {
			return 0, err
		}
	}
	return n, nil
}

func (p *tcpPort) answers() (int, error) {
	r := <-p.replies
	if r.err != nil {
		return 0, r.err
	}
	return 1, p.m.reply(r.size, r.stamp, r.now)
}

// read reads the replies of a connection until it ends.
func (p *tcpPort) read(f *stream) {
	for {
		b, err := f.recv()
		p.replies <- tcpReply{len(b), stampOf(b), clock(), err}
		if err != nil {
			return
		}
	}
}

// startMuxTCP makes the connections.
func (s *sender) startMuxTCP() error {
	w := s.c.work
	for i := range w.Sockets {
		m := s.newMuxSocket(i, w.Peers)
		p := &tcpPort{m: m, replies: make(chan tcpReply, w.Depth+w.Peers), buf: make([]byte, w.Size)}
		m.port = p
		s.loops = append(s.loops, m.loop)
		for range w.Peers {
			f, end, err := s.c.dial()
			if err != nil {
				return err
			}
			s.open.add(end)
			p.flows = append(p.flows, f)
			s.bound.Go(func() { p.read(f) })
		}
	}
	return nil
}
