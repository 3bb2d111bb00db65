package xrc_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/rds"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/transport/xrc"
	"github.com/rds-go/rds/xrc/objects"
)

// port is the same on all hosts; this one's is its own.
var port = uint16(20000 + os.Getpid()%10000)

// daemon is what one host has: RDS, whose connections carry XRC.
func daemon(addr string) *rds.Node {
	n, err := rds.NewNode(rds.Config{Addresses: []netip.Addr{netip.MustParseAddr(addr)}, Wire: rds.WireXRC, XRC: rds.XRCConfig{Port: port}})
	if err != nil {
		panic(err)
	}
	return n
}

// One process receives by a queue that it advertises, another one on another host
// finds the queue by the service id and sends to it.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	near, far := daemon("127.0.0.77"), daemon("127.0.0.78")
	defer near.Close()
	defer far.Close()
	here, there := near.XRC(), far.XRC()

	server, _ := there.Objects().NewSession(objects.SessionConfig{Name: "server"})
	defer server.Close(ctx)
	dom, _ := server.OpenDomain(-1, os.O_CREATE)
	pd, _ := server.AllocPD()
	cq, _ := server.CreateCQ(64)
	srq, err := server.CreateSRQ(objects.SRQAttr{Domain: dom, PD: pd, CQ: cq, MaxWR: 16})
	if err != nil {
		panic(err)
	}
	memory, _ := pd.RegMR(make([]byte, 1024), mr.LocalWrite, 0)
	_, _ = srq.PostReceive(iwarp.ReceiveRequest{ID: 42, SGE: []iwarp.SGE{memory.SGE(0, 1024)}})
	_, _ = server.Advertise(objects.ServiceAttr{ID: 0x1001, Domain: dom, SRQ: srq})

	client, _ := here.Objects().NewSession(objects.SessionConfig{Name: "client"})
	defer client.Close(ctx)
	clientPD, _ := client.AllocPD()
	clientCQ, _ := client.CreateCQ(64)
	ch, err := here.Connect(ctx, client, xrc.ChannelAttr{PD: clientPD, CQ: clientCQ, Remote: netip.MustParseAddr("127.0.0.78"), Service: 0x1001})
	if err != nil {
		panic(err)
	}
	_, err = ch.PostSend(iwarp.WorkRequest{ID: 1, Flags: iwarp.Signaled, Queue: ch.Queue().SRQN, Inline: []byte("to whom it may concern")})
	if err != nil {
		panic(err)
	}

	var done [1]iwarp.Completion
	for cq.Poll(done[:]) == 0 {
		if err := cq.Wait(ctx); err != nil {
			panic(err)
		}
	}
	fmt.Printf("receive %d from %v: %q\n", done[0].ID, done[0].QP.Peer(), memory.Bytes()[:done[0].Len])
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
