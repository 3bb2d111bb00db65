package rdmap_test

import (
	"fmt"

	"github.com/rds-go/rds/transport/iwarp/ddp"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
)

// A Read Request is written and received.
func ExampleSegment() {
	request := rdmap.ReadRequest{SinkSTag: 0x100, Size: 8192, SourceSTag: 0x200, SourceTO: 4096}
	header := ddp.Untagged{Last: true, ULP: rdmap.OpReadRequest.Control(), QN: rdmap.OpReadRequest.Queue(), MSN: 1}
	ulpdu := request.AppendTo(header.AppendTo(nil))

	var requests ddp.Queue
	var s rdmap.Segment
	if err := s.Parse(ulpdu, rdmap.OpsRFC5040); err != nil {
		fmt.Println(err)
	}
	if err := requests.Check(&s.Untagged); err != nil {
		fmt.Println(err)
	}
	requests.Advance(&s.Untagged, len(s.Payload))

	var got rdmap.ReadRequest
	err := got.Decode(s.Payload)
	fmt.Printf("%v %+v %v\n", s.Op, got, err)
	fmt.Println(requests.Check(&s.Untagged)) // the same again
	// Output:
	// RDMA Read Request {SinkSTag:256 SinkTO:0 Size:8192 SourceSTag:512 SourceTO:4096} <nil>
	// ddp: invalid MSN: not in range
}

// A Terminate says what was wrong with which segment.
func ExampleTerminate() {
	bad := ddp.Untagged{Last: true, ULP: rdmap.OpSend.Control(), QN: 0x1000, MSN: 1}.AppendTo(nil)
	var s rdmap.Segment
	t := rdmap.NewTerminate(rdmap.CauseOf(s.Parse(bad, rdmap.OpsRFC5040)), bad)
	body := t.AppendTo(nil)
	fmt.Printf("% x\n", body)

	var got rdmap.Terminate
	err := got.Decode(body, rdmap.Hints{Sent: true})
	fmt.Println(got.Cause, err)
	// Linux's siw lays the same out differently.
	body[0], body[2] = 0x21, 0x03
	err = got.Decode(body, rdmap.Hints{Sent: true})
	fmt.Println(got.Cause, err, got.SIW)
	// Output:
	// 12 01 c0 00 00 12 41 43 00 00 00 00 00 00 10 00 00 00 00 01 00 00 00 00
	// rdmap: DDP 1/2/01 invalid QN <nil>
	// rdmap: DDP 1/2/01 invalid QN <nil> true
}
