package ddp_test

import (
	"fmt"

	"github.com/rds-go/rds/transport/iwarp/ddp"
)

// A message of two segments, and one that comes out of turn.
func ExampleQueue() {
	var q ddp.Queue
	for _, h := range []ddp.Untagged{
		{MSN: 1, MO: 0},
		{MSN: 2, MO: 0, Last: true},
		{MSN: 1, MO: 1424, Last: true},
		{MSN: 2, MO: 0, Last: true},
	} {
		if err := q.Check(&h); err != nil {
			fmt.Println(err)
			continue
		}
		q.Advance(&h, 1424)
		fmt.Println("next is", q.MSN(), "open", q.Open())
	}
	// Output:
	// next is 1 open true
	// ddp: invalid MSN: not in range
	// next is 2 open false
	// next is 3 open false
}

func ExampleTagged() {
	h := ddp.Tagged{Last: true, ULP: 0x40, STag: 0x415b6f00, TO: 0x55addb40e550}
	segment := append(h.AppendTo(nil), "payload"...)

	var got ddp.Tagged
	if ddp.IsTagged(segment[0]) {
		err := got.Decode(segment)
		fmt.Printf("%+v %s %v\n", got, segment[ddp.TaggedLen:], err)
	}
	// Output:
	// {Last:true ULP:64 STag:1096511232 TO:94205196166480} payload <nil>
}
