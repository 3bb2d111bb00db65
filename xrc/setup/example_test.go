package setup_test

import (
	"fmt"
	"net/netip"

	"github.com/rds-go/rds/transport/iwarp/xctl"
	"github.com/rds-go/rds/xrc/setup"
)

// An initiator's daemon asks for a target in the private data of the connection
// that will carry it.
func ExampleDecode() {
	block := xctl.Block{
		Caps:   xctl.CapTarget | xctl.CapInitiator | xctl.CapCredit,
		MaxSRQ: xctl.DefaultMaxSRQ, Credit: xctl.DefaultCredit, Incarnation: 1,
	}
	request := setup.Connect{
		ID: 1, Host: netip.MustParseAddr("192.0.2.1"), Incarnation: 1, Service: 0x1001,
		Initiator: setup.QP{Number: 0x400001, Generation: 1}, MTU: 4096, RdAtomic: 16, PSN: 100,
	}
	private, err := block.Offer(nil, request.AppendTo(nil))
	fmt.Println(len(private), "octets", err)

	// The peer's daemon.
	_, upper, _ := block.Negotiate(private)
	m, _, err := setup.Decode(upper)
	if c, ok := m.(*setup.Connect); ok {
		fmt.Printf("%v: initiator %#x of %v wants service %#x\n", m.Type(), c.Initiator.Number, c.Host, c.Service)
	}
	fmt.Println(err)
	// Output:
	// 108 octets <nil>
	// connect: initiator 0x400001 of 192.0.2.1 wants service 0x1001
	// <nil>
}
