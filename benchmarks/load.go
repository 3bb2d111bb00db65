package main

import (
	"fmt"
	"os"
	"time"
)

// A Conn is one flow of messages.
type Conn interface {
	Send(m []byte) error   // may buffer
	Flush() error          // sends what is buffered
	Recv() ([]byte, error) // valid until the next Recv
}

// A Sock is one addressed socket. Each side numbers its own: 0 is for
// control, 1 to n do the work.
type Sock interface {
	SendTo(dst int, m []byte) error
	Recv() (src int, m []byte, err error)
}

type (
	openConn func() (Conn, error)
	openSock func(i int) (Sock, error)
)

// connPeer is a peer whose unit is a flow. listen accepts flows for ever;
// dial returns what opens one more flow.
func connPeer(listen func(e *env, serve func(Conn)) error, dial func(e *env) (openConn, error)) peer {
	return peer{
		serve:  func(e *env) error { return listen(e, serveConn) },
		client: func(e *env) error { return connClient(e, dial) },
	}
}

func connClient(e *env, dial func(e *env) (openConn, error)) error {
	var open openConn
	var probe Conn
	if err := retry(func() (err error) {
		if open, err = dial(e); err == nil {
			probe, err = open()
		}
		return err
	}); err != nil {
		return err
	}
	switch e.workload {
	case "mux":
		return muxConn(e, open, probe)
	case "sockets":
		return sockets(e, probe, func(int) (Conn, error) { return open() }, nil)
	}
	return connWork(e, probe, 0)
}

// sockPeer is a peer whose unit is an addressed socket. attach joins one side
// to the other. window, in bytes, is for peers that drop or buffer without
// limit unless the application waits.
func sockPeer(attach func(e *env, server bool) (openSock, error), window int) peer {
	return peer{
		serve: func(e *env) error {
			open, err := attach(e, true)
			if err != nil {
				return err
			}
			more := func(n int) error {
				for i := range n {
					s, err := open(i + 1)
					if err != nil {
						return err
					}
					go serveSock(s, nil)
				}
				return nil
			}
			if e.workload == "mux" {
				if err := more(muxSocks); err != nil {
					return err
				}
			}
			ctl, err := open(0)
			if err != nil {
				return err
			}
			return serveSock(ctl, func() error { return more(e.count) })
		},
		client: func(e *env) error {
			var open openSock
			if err := retry(func() (err error) { open, err = attach(e, false); return }); err != nil {
				return err
			}
			flow := func(i int) (Conn, error) {
				s, err := open(i)
				return &sockConn{s, i}, err
			}
			probe, err := flow(0)
			if err != nil {
				return err
			}
			if err := retry(func() error { _, err := call(probe, newMsg(mPing, 64)); return err }); err != nil {
				return err
			}
			switch e.workload {
			case "mux":
				return muxSock(e, open, probe)
			case "sockets":
				return sockets(e, probe, flow, newMsg(mOpen, 64))
			}
			return connWork(e, probe, window)
		},
	}
}

// A sockConn is the flow between client socket i and server socket i.
type sockConn struct {
	s Sock
	i int
}

func (c *sockConn) Send(m []byte) error   { return c.s.SendTo(c.i, m) }
func (c *sockConn) Flush() error          { return flush(c.s) }
func (c *sockConn) Recv() ([]byte, error) { _, m, err := c.s.Recv(); return m, err }

// flush sends what a socket has collected, if it is one that does.
func flush(s Sock) error {
	if f, ok := s.(interface{ Flush() error }); ok {
		return f.Flush()
	}
	return nil
}

// retry calls f until the server is up, for at most three seconds.
func retry(f func() error) (err error) {
	for range 150 {
		if err = f(); err == nil {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return err
}

// serveConn answers messages until the flow ends.
func serveConn(c Conn) {
	var t tally
	for {
		m, err := c.Recv()
		if err != nil {
			return
		}
		if r := t.answer(m); r != nil {
			if c.Send(r) != nil || c.Flush() != nil {
				return
			}
		}
	}
}

// serveSock does the same for a socket; more is for mOpen.
func serveSock(s Sock, more func() error) error {
	var t tally
	for {
		src, m, err := s.Recv()
		if err != nil {
			return err
		}
		if m[0] == mOpen && more != nil {
			if err := more(); err != nil {
				fmt.Fprintln(os.Stderr, "benchmarks:", err)
				return err
			}
		}
		if r := t.answer(m); r != nil {
			if err := s.SendTo(src, r); err != nil {
				return err
			}
			if err := flush(s); err != nil {
				return err
			}
		}
	}
}

func connWork(e *env, probe Conn, window int) error {
	if e.workload == "pingpong" {
		return pingpong(e, probe)
	}
	return oneWay(e, probe, window)
}
