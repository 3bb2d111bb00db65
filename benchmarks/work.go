package main

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// call sends one message and waits for one.
func call(c Conn, m []byte) ([]byte, error) {
	if err := c.Send(m); err != nil {
		return nil, err
	}
	if err := c.Flush(); err != nil {
		return nil, err
	}
	return c.Recv()
}

func askStats(c Conn, t byte) (serverStats, error) {
	m, err := call(c, newMsg(t, 64))
	if err != nil {
		return serverStats{}, err
	}
	if m[0] != mStats {
		return serverStats{}, fmt.Errorf("no stats, type %q", m[0])
	}
	return parseStats(m), nil
}

// pingpong: one message outstanding.
func pingpong(e *env, c Conn) error {
	h, m := new(hist), newMsg(mPing, e.size)
	phase := func(d time.Duration) error {
		for start := time.Now(); ; {
			t := time.Now()
			if _, err := call(c, m); err != nil {
				return err
			}
			end := time.Now()
			h.add(end.Sub(t))
			if end.Sub(start) > d {
				return nil
			}
		}
	}
	if err := phase(e.warm); err != nil {
		return err
	}
	h.reset()
	s0, err := askStats(c, mEnd)
	if err != nil {
		return err
	}
	cpu := e.cpuSec()
	if err := phase(e.dur); err != nil {
		return err
	}
	cpu = e.cpuSec() - cpu
	s1, err := askStats(c, mEnd)
	if err != nil {
		return err
	}
	printPingpong(e, h, cpu+s1.cpu-s0.cpu)
	return nil
}

// oneWay: the sender is done when the receiver has confirmed the count. With
// a window, it also waits for acknowledgements of every quarter of it.
func oneWay(e *env, c Conn, window int) error {
	m := newMsg(mData, e.size)
	every := uint64(max(1, min(window/e.size, 8192)/4))
	batch := max(1, 65536/e.size) // messages between looks at the clock
	phase := func(d time.Duration) (n uint64, s serverStats, err error) {
		acks := 0
		ack := func() error {
			acks--
			r, err := c.Recv()
			if err == nil && r[0] != mAck {
				err = fmt.Errorf("no acknowledgement, type %q", r[0])
			}
			return err
		}
		for start := time.Now(); time.Since(start) < d; {
			for range batch {
				n++
				m[1] = 0
				if window > 0 && n%every == 0 {
					m[1] = 1
					acks++
				}
				if err = c.Send(m); err != nil {
					return
				}
				if acks == 4 {
					if err = ack(); err != nil {
						return
					}
				}
			}
		}
		for acks > 0 {
			if err = ack(); err != nil {
				return
			}
		}
		if s, err = askStats(c, mEnd); err == nil && s.n != n {
			err = fmt.Errorf("sent %d, receiver has %d", n, s.n)
		}
		return
	}
	_, s0, err := phase(e.warm)
	if err != nil {
		return err
	}
	cpu, start := e.cpuSec(), time.Now()
	n, s1, err := phase(e.dur)
	if err != nil {
		return err
	}
	printOneWay(e, n, time.Since(start).Seconds(), e.cpuSec()-cpu+s1.cpu-s0.cpu)
	return nil
}

// A meter measures what many goroutines do: they add to it until it stops.
type meter struct {
	hist
	stop atomic.Bool
}

// measure lets the goroutines work for the warm-up and the measured time and
// prints the result. probe is a flow to the server that they do not use.
func (t *meter) measure(e *env, probe Conn) error {
	time.Sleep(e.warm)
	s0, err := askStats(probe, mEnd)
	if err != nil {
		return err
	}
	t.reset()
	cpu, start := e.cpuSec(), time.Now()
	time.Sleep(e.dur)
	n, sec := t.n.Load(), time.Since(start).Seconds()
	cpu = e.cpuSec() - cpu
	s1, err := askStats(probe, mEnd)
	if err != nil {
		return err
	}
	printReply(n, sec, cpu+s1.cpu-s0.cpu, &t.hist, tcpConns(), rssKB("self"), s1.rssKB+e.brokerKB())
	t.stop.Store(true)
	return nil
}

// sender is a sending socket of mux: it sends to each destination in turn, and
// each token is one message that may be outstanding.
func (t *meter) sender(first int, tokens chan struct{}, send func(dst int, m []byte) error) {
	m := newMsg(mMsg, muxMsg)
	for i := first; !t.stop.Load(); i++ {
		<-tokens
		stamp(m)
		if send(i%muxSocks, m) != nil {
			return
		}
	}
}

func (t *meter) replies(tokens chan struct{}, recv func() ([]byte, error)) {
	for {
		m, err := recv()
		if err != nil {
			return
		}
		t.add(age(m))
		tokens <- struct{}{}
	}
}

func fullWindow() chan struct{} {
	c := make(chan struct{}, muxWindow)
	for range muxWindow {
		c <- struct{}{}
	}
	return c
}

// muxConn: a flow for each of the 64x64 pairs, a goroutine for each flow's
// replies and one for each sending socket.
func muxConn(e *env, open openConn, probe Conn) error {
	var t meter
	var flows [muxSocks][muxSocks]Conn
	for s := range flows {
		for d := range flows[s] {
			var err error
			if flows[s][d], err = open(); err != nil {
				return err
			}
		}
	}
	for s := range flows {
		tokens := fullWindow()
		for _, c := range flows[s] {
			go t.replies(tokens, c.Recv)
		}
		go t.sender(s, tokens, func(d int, m []byte) error {
			if err := flows[s][d].Send(m); err != nil {
				return err
			}
			return flows[s][d].Flush()
		})
	}
	return t.measure(e, probe)
}

// muxSock: two goroutines for each of the 64 sockets.
func muxSock(e *env, open openSock, probe Conn) error {
	var t meter
	for i := range muxSocks {
		s, err := open(i + 1)
		if err != nil {
			return err
		}
		tokens := fullWindow()
		go t.replies(tokens, func() ([]byte, error) { _, m, err := s.Recv(); return m, err })
		go t.sender(i, tokens, func(d int, m []byte) error {
			if err := s.SendTo(d+1, m); err != nil {
				return err
			}
			return flush(s)
		})
	}
	return t.measure(e, probe)
}

// sockets opens flows, has each carry one ping, and looks at what memory they
// took. first, if any, has the server open its sockets.
func sockets(e *env, probe Conn, open func(i int) (Conn, error), first []byte) error {
	s0, err := askStats(probe, mGC)
	if err != nil {
		return err
	}
	debug.FreeOSMemory()
	rss, slab, conns := rssKB("self"), slabKB(), tcpConns()
	s0.rssKB += e.brokerKB()
	keep, ping := make([]Conn, e.count), newMsg(mPing, 64)
	start := time.Now()
	if first != nil {
		if _, err := call(probe, first); err != nil {
			return err
		}
	}
	for i := range keep {
		if keep[i], err = open(i + 1); err != nil {
			return err
		}
		if _, err := call(keep[i], ping); err != nil {
			return err
		}
	}
	sec := time.Since(start).Seconds()
	s1, err := askStats(probe, mGC)
	if err != nil {
		return err
	}
	debug.FreeOSMemory()
	printSockets(e.count, sec, rssKB("self")-rss, s1.rssKB+e.brokerKB()-s0.rssKB, slabKB()-slab, tcpConns()-conns)
	keep[0].Flush() // keeps them all alive until here
	return nil
}
