package bench

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// loop is a goroutine of a sender that keeps requests outstanding: as many as its depth, asked for in
// lists of up to its batch as others are answered. At an offered rate each has its time; one
// that is late starts at once, and the histogram makes up for those that a slow one held
// up (RecordCorrectedValue).
type loop struct {
	sender       *sender
	port         port
	depth, batch int
	pace         time.Duration // time between requests; 0: as fast as it goes

	// These are read when the loop has ended.
	hist  *hdrhistogram.Histogram // latencies of the measured phase; nil: not taken
	count uint64                  // answers of the measured phase
	total uint64                  // Atomic: changes, since the start
	_     [64]byte                // the next loop's figures are another CPU's
}

// newLoop makes a loop with the depth and the batch of the sender's work.
func (s *sender) newLoop(hist *hdrhistogram.Histogram) *loop {
	return &loop{sender: s, depth: max(s.c.work.Depth, 1), batch: max(s.c.work.Batch, 1), hist: hist}
}

// port is what a loop asks by.
type port interface {
	// ask makes up to n requests, and returns how many.
	ask(n int, now int64) (int, error)
	// answers waits for answers, has the loop take each, and returns how many there were.
	answers() (int, error)
}

// answered takes an answer to what was asked at a time.
func (l *loop) answered(asked, now int64) {
	if l.sender.phase.Load() != phaseMeasure {
		return
	}
	if l.hist != nil {
		l.hist.RecordCorrectedValue(min(now-asked, maxLatency), int64(l.pace))
	}
	if l.count++; l.count == 1 {
		select {
		case l.sender.first <- struct{}{}:
		default:
		}
	}
}

func (l *loop) work() error {
	free, out := l.depth, 0
	stopped := func() bool { return l.sender.phase.Load() == phaseStop }
	for due := time.Now(); ; {
		for free > 0 && (out == 0 || !stopped()) {
			if l.pace > 0 {
				due = due.Add(l.pace)
				l.sender.wait(time.Until(due))
			}
			n, err := l.port.ask(min(free, l.batch), clock())
			if err != nil {
				return err
			}
			free -= n
			out += n
		}
		n, err := l.port.answers()
		if err != nil {
			return err
		}
		free += n
		if out -= n; out == 0 && stopped() {
			return nil
		}
	}
}

// startLoop starts ping-pong, or the fetching of blocks.
func (s *sender) startLoop() error {
	c, w := s.c, s.c.work
	l := s.newLoop(newHist())
	var (
		end func()
		err error
	)
	switch {
	case w.shape() == RDMA && c.transport == TCP:
		l.port, end, err = c.newStreamFetcher(l)
	case w.Kind == Fetch:
		l.port, end, err = c.newRDSFetcher(l)
	case w.Op == OpRead && c.transport != TCP:
		l.port, end, err = c.newVerbsFetcher(l)
	default: // one message outstanding
		var m messenger
		m, end, err = c.messenger()
		l.port = &pingPort{l: l, m: m}
		if l.depth, l.batch = 1, 1; w.Rate > 0 {
			l.pace = time.Duration(float64(time.Second) / w.Rate)
		}
	}
	if err != nil {
		return err
	}
	s.open.add(end)
	s.loops = append(s.loops, l)
	return nil
}

// pingPort makes whole round trips.
type pingPort struct {
	l     *loop
	m     messenger
	n     uint64
	asked int64
}

func (p *pingPort) ask(_ int, now int64) (int, error) {
	p.asked = now
	err := p.m.send(p.n, 1)
	if err == nil {
		err = p.m.flush()
	}
	return 1, err
}

func (p *pingPort) answers() (int, error) {
	if err := p.m.recv(p.n); err != nil {
		return 0, err
	}
	p.l.answered(p.asked, clock())
	p.n++
	return 1, nil
}
