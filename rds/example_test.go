package rds_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/netip"
	"syscall"

	"github.com/rds-go/rds/rds"
)

// A socket of the process's shared provider, here a node. Real programs bind an address of
// their host and send to others; this one sends to itself.
func ExampleListen() {
	s, err := rds.Listen("127.91.17.3:4000")
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	ctx := context.Background()
	if err := s.Send(ctx, s.LocalAddrPort(), []byte("hello")); err != nil {
		log.Fatal(err)
	}
	m, err := s.Recv(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s, from %v\n", m.Data, m.From)
	m.Release()
	// Output: hello, from 127.91.17.3:4000
}

// hosts makes two nodes, as two hosts would have, with a socket each.
func hosts() (a, b *rds.Socket, end func()) {
	var nodes []*rds.Node
	var socks []*rds.Socket
	for _, addr := range []string{"127.91.17.1:4000", "127.91.17.2:4000"} {
		n, err := rds.NewNode(rds.Config{Port: 26385})
		if err != nil {
			log.Fatal(err)
		}
		s, err := n.Bind(netip.MustParseAddrPort(addr))
		if err != nil {
			log.Fatal(err)
		}
		nodes, socks = append(nodes, n), append(socks, s)
	}
	return socks[0], socks[1], func() {
		for _, n := range nodes {
			n.Close()
		}
	}
}

func ExampleSocket_Send() {
	client, server, end := hosts()
	defer end()
	ctx := context.Background()

	go func() { // the server answers one request
		m, err := server.Recv(ctx)
		if err != nil {
			return
		}
		defer m.Release()
		server.Send(ctx, m.From, append([]byte("re: "), m.Data...))
	}()

	if err := client.Send(ctx, server.LocalAddrPort(), []byte("request")); err != nil {
		log.Fatal(err)
	}
	m, err := client.Recv(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", m.Data)
	m.Release()
	// Output: re: request
}

func ExampleSocket_SendBatch() {
	a, b, end := hosts()
	defer end()
	ctx := context.Background()

	out := make([]rds.Outgoing, 3)
	for i := range out {
		out[i] = rds.Outgoing{To: b.LocalAddrPort(), Data: fmt.Appendf(nil, "message %d", i)}
	}
	n, err := a.SendBatch(ctx, out)
	fmt.Println(n, err)

	in := make([]rds.Message, 8)
	for got := 0; got < len(out); {
		k, err := b.RecvBatch(ctx, in)
		if err != nil {
			log.Fatal(err)
		}
		for i := range in[:k] {
			fmt.Printf("%s\n", in[i].Data)
			in[i].Release()
		}
		got += k
	}
	// Output:
	// 3 <nil>
	// message 0
	// message 1
	// message 2
}

// A message is built in the stack's memory, sent without a copy, and forwarded
// by its receiver without a copy as well.
func ExampleSocket_AllocMessage() {
	a, b, end := hosts()
	defer end()
	ctx := context.Background()

	m := a.AllocMessage(100_000)
	copy(m.Data, "a large payload")
	if err := a.SendMessage(ctx, &rds.Outgoing{To: b.LocalAddrPort(), Buffer: &m}); err != nil {
		m.Release() // refused: still ours
		log.Fatal(err)
	}
	fmt.Println("ours after the send:", m.Data != nil)

	m, err := b.Recv(ctx)
	if err != nil {
		log.Fatal(err)
	}
	m.Data = m.Data[:15] // less of it
	if err := b.SendMessage(ctx, &rds.Outgoing{To: m.From, Buffer: &m}); err != nil {
		log.Fatal(err)
	}
	if m, err = a.Recv(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", m.Data)
	m.Release()
	// Output:
	// ours after the send: false
	// a large payload
}

// A Socket is a net.PacketConn whose datagrams arrive.
func ExampleSocket_packetConn() {
	a, b, end := hosts()
	defer end()

	var pc net.PacketConn = a
	if _, err := pc.WriteTo([]byte("datagram"), b.LocalAddr()); err != nil {
		log.Fatal(err)
	}
	buf := make([]byte, 100)
	n, from, err := b.ReadFrom(buf)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s from %s %v\n", buf[:n], from.Network(), from)
	// Output: datagram from rds 127.91.17.1:4000
}

// The fate of a message comes to its sender as a message of its own.
func ExampleOutgoing_notify() {
	a, b, end := hosts()
	defer end()
	ctx := context.Background()

	o := rds.Outgoing{To: b.LocalAddrPort(), Data: []byte("registered"), Notify: true, Token: 7}
	if err := a.SendMessage(ctx, &o); err != nil {
		log.Fatal(err)
	}
	m, err := a.Recv(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(m.Kind == rds.KindStatus, m.Token, m.Status == rds.StatusSuccess)
	// Output: true 7 true
}

// Errors are those of this package, of a Linux RDS socket, and of package net.
func ExampleOpError() {
	a, _, end := hosts()
	defer end()

	err := a.TrySend(netip.AddrPort{}, []byte("to whom?"))
	fmt.Println(err)
	fmt.Println(errors.Is(err, rds.ErrNotConnected), errors.Is(err, syscall.ENOTCONN))

	_, err = a.TryRecv()
	fmt.Println(err)
	fmt.Println(errors.Is(err, rds.ErrWouldBlock), errors.Is(err, syscall.EAGAIN))
	// Output:
	// rds: send 127.91.17.1:4000: no destination
	// true true
	// rds: receive 127.91.17.1:4000: operation would block
	// true true
}

// A host answers pings without any socket bound.
func ExampleSocket_ping() {
	a, b, end := hosts()
	defer end()
	ctx := context.Background()

	host := netip.AddrPortFrom(b.LocalAddrPort().Addr(), 0)
	if err := a.Send(ctx, host, nil); err != nil {
		log.Fatal(err)
	}
	m, err := a.Recv(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(m.Data), "bytes from", m.From)
	m.Release()
	// Output: 0 bytes from 127.91.17.2:0
}
