package loop_test

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/loop"
	"github.com/rds-go/rds/transport/transporttest"
)

// printer prints what it hears.
type printer struct {
	transporttest.Simple
	done chan struct{}
}

func (printer) Message(h *wire.Header, payload []byte, owned *buf.Buf) {
	fmt.Printf("message %d: %s\n", h.Sequence, payload)
	if owned != nil {
		owned.Release()
	}
}
func (p printer) Closed(cause error, _ uint64) {
	fmt.Println("closed:", cause)
	close(p.done)
}

type quiet struct{ printer }

func (quiet) Closed(error, uint64) {}

func ExampleNetwork() {
	network := loop.NewNetwork()
	a, b := network.Transport(), network.Transport()
	addrA, addrB := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")

	done := make(chan struct{})
	err := b.Listen(addrB, func(l transport.Link) { _ = l.Start(printer{done: done}) })
	if err != nil {
		fmt.Println(err)
	}
	link, err := a.Dial(context.Background(), addrA, addrB, 0)
	if err != nil {
		fmt.Println(err)
	}
	if err := link.Start(quiet{}); err != nil {
		fmt.Println(err)
	}
	header := make([]byte, wire.HeaderSize)
	wire.PutData(header, 1, 5, 4000, 5000)
	if _, err := link.Send([]transport.Frame{{Head: header, Body: []byte("hello"), Port: 5000}}); err != nil {
		fmt.Println(err)
	}
	link.Close(transport.Drain)
	<-done
	_ = a.Close()
	_ = b.Close()
	// Output:
	// message 1: hello
	// closed: EOF
}
