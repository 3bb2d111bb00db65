package main

import (
	"fmt"
	"net"
	"strconv"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// A socket is a subject with its subscription; both processes are clients of
// the broker, over one connection each. The reply subject names the sender.
type natsSock struct {
	nc       *nats.Conn
	peer, me string
	q        chan *nats.Msg
}

func natsAttach(e *env, server bool) (openSock, error) {
	nc, err := nats.Connect("nats://" + e.addr)
	if err != nil {
		return nil, err
	}
	mine, peer := "c.", "s."
	if server {
		mine, peer = peer, mine
	}
	queue := 16384 // what finds it full is dropped
	if e.workload == "mux" || e.workload == "sockets" {
		queue = 1024
	}
	return func(i int) (Sock, error) {
		s := &natsSock{nc, peer, fmt.Sprint(mine, i), make(chan *nats.Msg, queue)}
		_, err := nc.ChanSubscribe(s.me, s.q)
		return s, err
	}, nil
}

func (s *natsSock) SendTo(dst int, m []byte) error {
	return s.nc.PublishRequest(s.peer+strconv.Itoa(dst), s.me, m)
}

func (s *natsSock) Recv() (int, []byte, error) {
	m, ok := <-s.q
	if !ok {
		return 0, nil, nats.ErrConnectionClosed
	}
	if len(m.Data) == 0 {
		return 0, nil, nats.ErrNoResponders
	}
	src, _ := strconv.Atoi(m.Reply[2:])
	return src, m.Data, nil
}

// natsBroker is a NATS server in a process of its own, until it is killed.
func natsBroker(e *env) error {
	host, port, err := net.SplitHostPort(e.addr)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	s, err := server.NewServer(&server.Options{Host: host, Port: n, NoLog: true, NoSigs: true})
	if err != nil {
		return err
	}
	s.Start()
	s.WaitForShutdown()
	return nil
}
