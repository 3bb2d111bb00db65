package objects_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc/objects"
)

// connection stands for what the transport carries a queue pair on.
type connection struct{}

func (connection) Changed() {}

func (connection) Close(cause error) { fmt.Println("connection closed:", cause) }

// A process advertises a queue; a peer connects and sends to it; the process
// dies, and with it what only it was registered with.
func Example() {
	ctx := context.Background()
	hardware, err := iwarp.Open(iwarp.Config{})
	if err != nil {
		panic(err)
	}
	defer hardware.Close()
	base, _ := hardware.AllocPD() // of the queue pairs that messages come by
	dev, err := objects.New(objects.Config{Now: time.Now, Base: base})
	if err != nil {
		panic(err)
	}

	// Processes of one job share a domain by having a file open.
	path := filepath.Join(os.TempDir(), "xrc-example")
	job, err := os.Create(path)
	if err != nil {
		panic(err)
	}
	defer os.Remove(path)
	app, _ := dev.NewSession(objects.SessionConfig{Name: "app"})
	dom, err := app.OpenDomain(int(job.Fd()), os.O_CREATE)
	if err != nil {
		panic(err)
	}
	_ = job.Close() // the domain keeps the inode

	pd, _ := app.AllocPD()
	cq, _ := app.CreateCQ(16)
	srq, _ := app.CreateSRQ(objects.SRQAttr{Domain: dom, PD: pd, CQ: cq, MaxWR: 16})
	_, _ = srq.PostReceive(iwarp.ReceiveRequest{ID: 42})
	_, _ = app.Advertise(objects.ServiceAttr{ID: 7, Domain: dom, SRQ: srq})

	// The daemon gets a peer's request to connect.
	reply, status := dev.Connect(objects.ConnectRequest{
		From:    objects.Peer{Host: netip.MustParseAddr("192.0.2.1"), Incarnation: 1, QP: objects.Ref{Kind: objects.KindInitiator, Number: 0x400000, Generation: 1}},
		Service: 7, MTU: 4096,
	})
	fmt.Println("connect:", status)
	target, _ := dev.Target(reply.Target)
	_ = target.Attach(connection{})

	// A message comes for a number.
	queue, err := dev.Resolve(reply.Answer.SRQN, target)
	if err != nil {
		panic(err)
	}
	fmt.Println("message finds a queue with receives:", queue.Posted())

	_ = app.Close(ctx)
	_, err = dev.Resolve(reply.Answer.SRQN, target)
	fmt.Println("after the process:", err)
	// Output:
	// connect: found
	// message finds a queue with receives: 1
	// connection closed: xrc: queue pair destroyed
	// after the process: xrc: the target takes no requests
}
