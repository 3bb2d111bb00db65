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
	"github.com/rds-go/rds/xrc"
)

// port is the same on all hosts; this one's is its own.
var port = uint16(20000 + os.Getpid()%10000)

// host is a node of this process. With rds.Dial it would be the host's daemon.
func host(addr string) *rds.Node {
	n, err := rds.NewNode(rds.Config{Addresses: []netip.Addr{netip.MustParseAddr(addr)}, Wire: rds.WireXRC, XRC: rds.XRCConfig{Port: port}})
	if err != nil {
		panic(err)
	}
	return n
}

// One host receives by a queue that it advertises, another one finds the queue by the service id and sends to it.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	near, far := host("127.0.0.77"), host("127.0.0.78")
	defer near.Close()
	defer far.Close()

	server, err := far.XRC(ctx)
	if err != nil {
		panic(err)
	}
	dom, _ := server.OpenDomain(nil, os.O_CREATE)
	pd, _ := server.AllocPD()
	cq, _ := server.CreateCQ(64)
	srq, err := server.CreateSRQ(xrc.SRQAttr{Domain: dom, PD: pd, CQ: cq, MaxWR: 16})
	if err != nil {
		panic(err)
	}
	memory, _ := pd.Alloc(1024, mr.LocalWrite)
	_, _ = srq.PostReceive(iwarp.ReceiveRequest{ID: 42, SGE: []iwarp.SGE{memory.SGE(0, 1024)}})
	_, _ = server.Advertise(xrc.ServiceAttr{ID: 0x1001, Domain: dom, SRQ: srq})

	client, err := near.XRC(ctx)
	if err != nil {
		panic(err)
	}
	clientPD, _ := client.AllocPD()
	clientCQ, _ := client.CreateCQ(128)
	i, err := client.Connect(ctx, xrc.InitiatorAttr{PD: clientPD, CQ: clientCQ, Remote: netip.MustParseAddr("127.0.0.78"), Service: 0x1001})
	if err != nil {
		panic(err)
	}
	_, err = i.PostSend(iwarp.WorkRequest{ID: 1, Flags: iwarp.Signaled, Queue: i.Queue().SRQN, Inline: []byte("to whom it may concern")})
	if err != nil {
		panic(err)
	}

	var done [1]iwarp.Completion
	for cq.Poll(done[:]) == 0 {
		if err := cq.Wait(ctx); err != nil {
			panic(err)
		}
	}
	fmt.Printf("receive %d: %q\n", done[0].ID, memory.Bytes()[:done[0].Len])
	for clientCQ.Poll(done[:]) == 0 {
		if err := clientCQ.Wait(ctx); err != nil {
			panic(err)
		}
	}
	fmt.Println("send", done[0].ID, done[0].Status)
	// Output:
	// receive 42: "to whom it may concern"
	// send 1 success
}
