package main

import (
	"context"
	"net/netip"

	"github.com/rds-go/rds/rds"
)

// RDS: a node in each process, sockets bound to consecutive ports, one TCP
// connection between the nodes.

// rdsPort is the RDS port of socket 0; it is not a TCP port.
const rdsPort = 4000

type rdsSock struct {
	s    *rds.Socket
	peer netip.Addr

	out  []rds.Outgoing // not yet sent, when batching
	data [][]byte       // their payloads

	in   []rds.Message // received; those before next are released
	next int
	have int
}

// rdsAttach makes a node on 127.0.0.1 (client) or 127.0.0.2 (server), whose TCP
// port is that of the address. With batch above 1, up to so many sends become
// one SendBatch and receives are RecvBatch.
func rdsAttach(batch int) func(e *env, server bool) (openSock, error) {
	return func(e *env, server bool) (openSock, error) {
		tcp, err := netip.ParseAddrPort(e.addr)
		if err != nil {
			return nil, err
		}
		me, peer := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2")
		if server {
			me, peer = peer, me
		}
		n, err := rds.NewNode(rds.Config{Port: tcp.Port()})
		if err != nil {
			return nil, err
		}
		return func(i int) (Sock, error) {
			s, err := n.Bind(netip.AddrPortFrom(me, uint16(rdsPort+i)))
			if err != nil {
				return nil, err
			}
			return newRDSSock(e, s, peer, batch), nil
		}, nil
	}
}

func newRDSSock(e *env, s *rds.Socket, peer netip.Addr, batch int) *rdsSock {
	r := &rdsSock{s: s, peer: peer, in: make([]rds.Message, batch)}
	if batch > 1 {
		r.out = make([]rds.Outgoing, 0, batch)
		r.data = make([][]byte, batch)
		for i := range r.data {
			r.data[i] = make([]byte, 0, e.size)
		}
	}
	return r
}

func (r *rdsSock) SendTo(dst int, m []byte) error {
	to := netip.AddrPortFrom(r.peer, uint16(rdsPort+dst))
	if r.data == nil {
		_, err := r.s.WriteToAddrPort(m, to)
		return err
	}
	b := &r.data[len(r.out)]
	*b = append((*b)[:0], m...)
	r.out = append(r.out, rds.Outgoing{To: to, Data: *b})
	if len(r.out) == cap(r.out) {
		return r.Flush()
	}
	return nil
}

func (r *rdsSock) Flush() error {
	if len(r.out) == 0 {
		return nil
	}
	_, err := r.s.SendBatch(context.Background(), r.out)
	r.out = r.out[:0]
	return err
}

func (r *rdsSock) Recv() (int, []byte, error) {
	if r.next > 0 {
		r.in[r.next-1].Release()
	}
	if r.next == r.have {
		n, err := r.s.RecvBatch(context.Background(), r.in)
		if err != nil {
			return 0, nil, err
		}
		r.next, r.have = 0, n
	}
	m := &r.in[r.next]
	r.next++
	return int(m.From.Port()) - rdsPort, m.Data, nil
}
