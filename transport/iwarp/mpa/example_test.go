package mpa_test

import (
	"fmt"

	"github.com/rds-go/rds/transport/iwarp/mpa"
)

// Two sides set a connection up and exchange the first FPDU. What a program
// writes to its TCP connection is a variable here.
func Example() {
	initiator, err := mpa.NewInitiator(mpa.Params{IRD: 16, ORD: 16, CRC: true, PeerToPeer: true, Private: []byte("hello")})
	if err != nil {
		fmt.Println(err)
		return
	}
	responder, err := mpa.NewResponder(mpa.Params{IRD: 8, MaxIRD: 64, ORD: 8})
	if err != nil {
		fmt.Println(err)
		return
	}

	request, err := responder.Feed(initiator.AppendRequest(nil))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("request: revision %d, IRD %d, ORD %d, %q\n", request.Rev, request.Peer.IRD, request.Peer.ORD, request.Private)
	there, err := responder.Accept(mpa.Params{IRD: 8, MaxIRD: 64, ORD: 8})
	if err != nil {
		fmt.Println(err)
		return
	}

	_, here, err := initiator.Feed(responder.Reply())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("initiator: IRD %d, ORD %d, CRC %v, RTR by %v\n", here.IRD, here.ORD, here.CRC, here.RTR)
	fmt.Printf("responder: IRD %d, ORD %d, CRC %v\n", there.IRD, there.ORD, there.CRC)

	// An empty RDMA Write for a ULPDU.
	fpdu := mpa.AppendFPDU(nil, []byte{0xc1, 0x40, 5: 1, 13: 0}, here.CRC)
	fmt.Printf("FPDU: %x\n", fpdu)
	parser := mpa.Parser{CRC: there.CRC, Markers: there.ReceiveMarkers}
	for _, octet := range fpdu {
		err := parser.Feed([]byte{octet}, func(ulpdu []byte) error {
			fmt.Printf("ULPDU: %x\n", ulpdu)
			return nil
		})
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	// Output:
	// request: revision 2, IRD 16, ORD 16, "hello"
	// initiator: IRD 16, ORD 16, CRC true, RTR by read
	// responder: IRD 16, ORD 8, CRC true
	// FPDU: 000ec140000000010000000000000000ebd34c5f
	// ULPDU: c140000000010000000000000000
}

// A rejection carries the upper layer's reason.
func ExampleResponder_Reject() {
	initiator, err := mpa.NewInitiator(mpa.Params{})
	if err != nil {
		fmt.Println(err)
		return
	}
	responder, err := mpa.NewResponder(mpa.Params{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := responder.Feed(initiator.AppendRequest(nil)); err != nil {
		fmt.Println(err)
		return
	}
	if err := responder.Reject([]byte("not today")); err != nil {
		fmt.Println(err)
		return
	}
	_, _, err = initiator.Feed(responder.Reply())
	if rejected, ok := err.(*mpa.RejectedError); ok {
		fmt.Printf("%v: %s\n", rejected, rejected.Private)
	}
	// Output:
	// mpa: rejected by the peer: not today
}
