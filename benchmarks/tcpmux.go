package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
)

// mux is the plain way to carry many sockets over one TCP connection in Go:
// a frame has its length, source and destination in 8 bytes; senders append
// frames to a shared buffer that one goroutine writes; one goroutine reads
// and hands each message to its socket's channel. A full channel stops the
// reader, and a full buffer the senders.
type mux struct {
	mu      sync.Mutex
	more    sync.Cond // the writer waits for data
	room    sync.Cond // senders wait for room
	pending []byte
	err     error
	socks   sync.Map // number: *muxEnd
	pool    sync.Pool
}

type muxEnd struct {
	m    *mux
	self int
	q    chan muxItem
	last *[]byte // what Recv returned, to use again
}

type muxItem struct {
	src int
	b   *[]byte
}

const (
	muxQueue = 256     // messages in a socket's queue
	muxRoom  = 1 << 20 // bytes that may wait for the writer
)

func muxAttach(e *env, server bool) (openSock, error) {
	m := &mux{}
	m.more.L, m.room.L = &m.mu, &m.mu
	if !server {
		c, err := net.Dial("tcp", e.addr)
		if err != nil {
			return nil, err
		}
		go m.write(c)
		go m.read(c)
		return m.open, nil
	}
	l, err := net.Listen("tcp", e.addr)
	if err != nil {
		return nil, err
	}
	return func(i int) (Sock, error) {
		s, err := m.open(i)
		if i == 0 { // opened last
			go func() {
				if c, err := l.Accept(); err == nil {
					go m.write(c)
					m.read(c)
				}
			}()
		}
		return s, err
	}, nil
}

func (m *mux) open(i int) (Sock, error) {
	s := &muxEnd{m: m, self: i, q: make(chan muxItem, muxQueue)}
	m.socks.Store(i, s)
	return s, nil
}

func (m *mux) fail(err error) {
	m.mu.Lock()
	m.err = err
	m.mu.Unlock()
	m.more.Broadcast()
	m.room.Broadcast()
}

func (m *mux) write(c net.Conn) {
	var out []byte
	for {
		m.mu.Lock()
		for len(m.pending) == 0 && m.err == nil {
			m.more.Wait()
		}
		m.pending, out = out[:0], m.pending
		err := m.err
		m.mu.Unlock()
		m.room.Broadcast()
		if err == nil {
			_, err = c.Write(out)
		}
		if err != nil {
			m.fail(err)
			return
		}
	}
}

func (m *mux) read(c net.Conn) {
	r := bufio.NewReaderSize(c, 64<<10)
	var h [8]byte
	for {
		_, err := io.ReadFull(r, h[:])
		n := int(binary.BigEndian.Uint32(h[:]))
		if err == nil && n > 1<<24 {
			err = fmt.Errorf("frame of %d bytes", n)
		}
		if err != nil {
			m.fail(err)
			return
		}
		b, _ := m.pool.Get().(*[]byte)
		if b == nil || cap(*b) < n {
			s := make([]byte, n)
			b = &s
		}
		*b = (*b)[:n]
		if _, err := io.ReadFull(r, *b); err != nil {
			m.fail(err)
			return
		}
		if s, ok := m.socks.Load(int(binary.BigEndian.Uint16(h[6:]))); ok {
			s.(*muxEnd).q <- muxItem{int(binary.BigEndian.Uint16(h[4:])), b}
		}
	}
}

func (s *muxEnd) SendTo(dst int, b []byte) error {
	m := s.m
	m.mu.Lock()
	for len(m.pending) > muxRoom && m.err == nil {
		m.room.Wait()
	}
	if m.err != nil {
		defer m.mu.Unlock()
		return m.err
	}
	idle := len(m.pending) == 0
	p := binary.BigEndian.AppendUint32(m.pending, uint32(len(b)))
	p = binary.BigEndian.AppendUint16(p, uint16(s.self))
	p = binary.BigEndian.AppendUint16(p, uint16(dst))
	m.pending = append(p, b...)
	m.mu.Unlock()
	if idle {
		m.more.Signal()
	}
	return nil
}

func (s *muxEnd) Recv() (int, []byte, error) {
	if s.last != nil {
		s.m.pool.Put(s.last)
	}
	g := <-s.q
	s.last = g.b
	return g.src, *g.b, nil
}
