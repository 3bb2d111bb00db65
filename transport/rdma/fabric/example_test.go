package fabric_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/transport/rdma/fabric"
	"github.com/rds-go/rds/xrc"
)

// port is the same on all hosts of a fabric; this one's is its own.
var port = uint16(20000 + os.Getpid()%10000)

// daemon is what one host has.
func daemon(addr string) (*fabric.Fabric, *xrc.Device, func()) {
	dev, err := iwarp.Open(iwarp.Config{EventLoops: 1})
	if err != nil {
		panic(err)
	}
	objects, err := xrc.New(xrc.Config{Now: time.Now})
	if err != nil {
		panic(err)
	}
	f, err := fabric.New(fabric.Config{Device: dev, XRC: objects, Addresses: []netip.Addr{netip.MustParseAddr(addr)}, Port: port})
	if err != nil {
		panic(err)
	}
	return f, objects, func() {
		_ = f.Close()
		_ = objects.Close()
		_ = dev.Close()
	}
}

// One process receives by a queue that it advertises, another one on another host
// finds the queue by the service id and sends to it.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	here, ours, closeHere := daemon("127.0.0.77")
	defer closeHere()
	there, theirs, closeThere := daemon("127.0.0.78")
	defer closeThere()

	server, _ := theirs.NewSession(xrc.SessionConfig{Name: "server"})
	defer server.Close(ctx)
	dom, _ := server.OpenDomain(xrc.DomainAttr{Mask: xrc.DomainFD | xrc.DomainFlags, FD: -1, Flags: os.O_CREATE})
	pd, _ := there.AllocPD(server)
	cq, _ := there.CreateCQ(server, 64)
	srq, err := there.CreateSRQ(server, fabric.SRQAttr{Domain: dom, PD: pd, CQ: cq, MaxWR: 16, MaxSGE: 1})
	if err != nil {
		panic(err)
	}
	memory, _ := pd.RegMR(make([]byte, 1024), mr.LocalWrite, 0)
	_, _ = srq.PostReceive(xrc.Receive{ID: 42, SGE: []xrc.SGE{memory.Receive(0, 1024)}})
	_, _ = server.Advertise(xrc.ServiceAttr{ID: 0x1001, Domain: dom, SRQ: srq})

	client, _ := ours.NewSession(xrc.SessionConfig{Name: "client"})
	defer client.Close(ctx)
	clientPD, _ := here.AllocPD(client)
	clientCQ, _ := here.CreateCQ(client, 64)
	ch, err := here.Connect(ctx, client, fabric.ChannelAttr{PD: clientPD, CQ: clientCQ, Remote: netip.MustParseAddr("127.0.0.78"), Service: 0x1001})
	if err != nil {
		panic(err)
	}
	_, err = ch.PostSend(iwarp.WorkRequest{ID: 1, Flags: iwarp.Signaled, Queue: ch.Queue().SRQN, Inline: []byte("to whom it may concern")})
	if err != nil {
		panic(err)
	}

	var done [1]fabric.Completion
	for cq.Poll(done[:]) == 0 {
		if err := cq.Wait(ctx); err != nil {
			panic(err)
		}
	}
	fmt.Printf("receive %d from %v: %q\n", done[0].ID, done[0].Peer, memory.Bytes()[:done[0].Len])
	for clientCQ.Poll(done[:]) == 0 {
		if err := clientCQ.Wait(ctx); err != nil {
			panic(err)
		}
	}
	fmt.Println("send", done[0].ID, done[0].Status)
	// Output:
	// receive 42 from 127.0.0.77: "to whom it may concern"
	// send 1 success
}
