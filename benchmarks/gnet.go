package main

import (
	"encoding/binary"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/panjf2000/gnet/v2/pkg/logging"
)

// gnet is driven by events: what a program does with a message, it does in a
// callback on the event loop. Frames are those of the tcp peer.

func frame(out, m []byte) []byte {
	return append(binary.BigEndian.AppendUint32(out, uint32(len(m))), m...)
}

// eachFrame hands every whole frame that c has to f.
func eachFrame(c gnet.Conn, f func(m []byte)) {
	for c.InboundBuffered() >= 4 {
		h, _ := c.Peek(4)
		n := 4 + int(binary.BigEndian.Uint32(h))
		if c.InboundBuffered() < n {
			return
		}
		b, _ := c.Peek(n)
		f(b[4:])
		c.Discard(n)
	}
}

func gnetOptions(loops int) []gnet.Option {
	return []gnet.Option{gnet.WithNumEventLoop(loops), gnet.WithTCPNoDelay(gnet.TCPNoDelay), gnet.WithReuseAddr(true),
		gnet.WithReadBufferCap(64 << 10), gnet.WithLogLevel(logging.ErrorLevel)}
}

type gnetServer struct {
	gnet.BuiltinEventEngine
}

type gnetState struct {
	tally
	batch []byte
}

func gnetServe(e *env) error {
	return gnet.Run(&gnetServer{}, "tcp://"+e.addr, gnetOptions(2)...)
}

func (*gnetServer) OnOpen(c gnet.Conn) ([]byte, gnet.Action) {
	c.SetContext(&gnetState{})
	return nil, gnet.None
}

// OnTraffic answers all that came in with one write.
func (*gnetServer) OnTraffic(c gnet.Conn) gnet.Action {
	s := c.Context().(*gnetState)
	s.batch = s.batch[:0]
	eachFrame(c, func(m []byte) {
		if r := s.answer(m); r != nil {
			s.batch = frame(s.batch, r)
		}
	})
	if len(s.batch) > 0 {
		c.Write(s.batch)
	}
	return gnet.None
}

// gnetHandler passes each message to a function on the event loop.
type gnetHandler struct {
	gnet.BuiltinEventEngine
}

type onMsg func(c gnet.Conn, m []byte)

func (*gnetHandler) OnTraffic(c gnet.Conn) gnet.Action {
	eachFrame(c, func(m []byte) { c.Context().(onMsg)(c, m) })
	return gnet.None
}

func gnetClient(e *env) error {
	cli, err := gnet.NewClient(&gnetHandler{}, gnetOptions(1)...)
	if err != nil {
		return err
	}
	if err := cli.Start(); err != nil {
		return err
	}
	dial := func(f onMsg) (c gnet.Conn, err error) {
		err = retry(func() (err error) { c, err = cli.DialContext("tcp", e.addr, f); return })
		return
	}
	// ask sends from outside the event loop; the answer comes on the channel.
	in := make(chan []byte, 8)
	probe, err := dial(func(_ gnet.Conn, m []byte) { in <- append([]byte(nil), m...) })
	if err != nil {
		return err
	}
	ask := func(t byte) serverStats {
		probe.AsyncWrite(frame(nil, newMsg(t, 64)), nil)
		return parseStats(<-in)
	}
	switch e.workload {
	case "pingpong":
		return gnetPingpong(e, dial, ask)
	case "oneway":
		return gnetOneWay(e, dial)
	case "mux":
		return gnetMux(e, dial, ask)
	}
	return gnetSockets(e, dial, ask)
}

type (
	gnetDial func(onMsg) (gnet.Conn, error)
	gnetAsk  func(t byte) serverStats
)

func gnetPingpong(e *env, dial gnetDial, ask gnetAsk) error {
	h, ping := new(hist), frame(nil, newMsg(mPing, e.size))
	var sent time.Time
	c, err := dial(func(c gnet.Conn, _ []byte) {
		h.add(time.Since(sent))
		sent = time.Now()
		c.Write(ping)
	})
	if err != nil {
		return err
	}
	sent = time.Now()
	c.AsyncWrite(ping, nil)
	time.Sleep(e.warm)
	h.reset()
	s0, cpu := ask(mEnd), e.cpuSec()
	time.Sleep(e.dur)
	cpu = e.cpuSec() - cpu
	printPingpong(e, h, cpu+ask(mEnd).cpu-s0.cpu)
	return nil
}

// gnetOneWay keeps up to four batches of 256 KiB unconfirmed: gnet itself
// would buffer without limit.
func gnetOneWay(e *env, dial gnetDial) error {
	m := newMsg(mData, e.size)
	every := max(1, (256<<10)/e.size)
	var batch []byte
	type result struct {
		n   uint64
		s   serverStats
		end time.Time
	}
	var (
		until   time.Time
		n       uint64
		pending int
		done    = make(chan result, 1)
	)
	send := func(c gnet.Conn) {
		pending++
		n += uint64(every)
		batch = batch[:0]
		for i := range every {
			m[1] = 0
			if i == every-1 {
				m[1] = 1
			}
			batch = frame(batch, m)
		}
		c.Write(batch)
	}
	c, err := dial(func(c gnet.Conn, m []byte) {
		switch m[0] {
		case mPing: // the start of a phase
			for range 4 {
				send(c)
			}
		case mAck:
			if pending--; time.Now().Before(until) {
				send(c)
			} else if pending == 0 {
				c.Write(frame(nil, newMsg(mEnd, 64)))
			}
		case mStats:
			done <- result{n, parseStats(m), time.Now()}
		}
	})
	if err != nil {
		return err
	}
	phase := func(d time.Duration) result {
		n, until = 0, time.Now().Add(d)
		c.AsyncWrite(frame(nil, newMsg(mPing, 64)), nil)
		return <-done
	}
	r0 := phase(e.warm)
	cpu, start := e.cpuSec(), time.Now()
	r := phase(e.dur)
	if r.s.n != r.n {
		return fmt.Errorf("sent %d, receiver has %d", r.n, r.s.n)
	}
	printOneWay(e, r.n, r.end.Sub(start).Seconds(), e.cpuSec()-cpu+r.s.cpu-r0.s.cpu)
	return nil
}

// gnetMux has a connection for each of the 64x64 pairs.
func gnetMux(e *env, dial gnetDial, ask gnetAsk) error {
	var t meter
	m := newMsg(mMsg, muxMsg)
	out := frame(nil, m)
	var starts []gnet.Conn
	for s := range muxSocks {
		flows, next := make([]gnet.Conn, muxSocks), s
		send := func() {
			stamp(out[4:])
			next++
			flows[next%muxSocks].Write(out) // same event loop
		}
		for d := range flows {
			first := true
			c, err := dial(func(_ gnet.Conn, m []byte) {
				if m[0] == mPing && first {
					first = false
					for range muxWindow {
						send()
					}
					return
				}
				t.add(age(m))
				if !t.stop.Load() {
					send()
				}
			})
			if err != nil {
				return err
			}
			flows[d] = c
		}
		starts = append(starts, flows[0])
	}
	for _, c := range starts {
		c.AsyncWrite(frame(nil, newMsg(mPing, 64)), nil)
	}
	time.Sleep(e.warm)
	s0 := ask(mEnd)
	t.reset()
	cpu, start := e.cpuSec(), time.Now()
	time.Sleep(e.dur)
	n, sec := t.n.Load(), time.Since(start).Seconds()
	cpu = e.cpuSec() - cpu
	s1 := ask(mEnd)
	printReply(n, sec, cpu+s1.cpu-s0.cpu, &t.hist, tcpConns(), rssKB("self"), s1.rssKB)
	return nil
}

func gnetSockets(e *env, dial gnetDial, ask gnetAsk) error {
	s0 := ask(mGC)
	debug.FreeOSMemory()
	rss, slab, conns := rssKB("self"), slabKB(), tcpConns()
	keep, pong := make([]gnet.Conn, e.count), make(chan struct{}, 1)
	start := time.Now()
	for i := range keep {
		c, err := dial(func(gnet.Conn, []byte) { pong <- struct{}{} })
		if err != nil {
			return err
		}
		keep[i] = c
		c.AsyncWrite(frame(nil, newMsg(mPing, 64)), nil)
		<-pong
	}
	sec := time.Since(start).Seconds()
	s1 := ask(mGC)
	debug.FreeOSMemory()
	printSockets(e.count, sec, rssKB("self")-rss, s1.rssKB-s0.rssKB, slabKB()-slab, tcpConns()-conns)
	keep[0].RemoteAddr()
	return nil
}
