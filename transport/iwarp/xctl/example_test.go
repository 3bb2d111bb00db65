package xctl_test

import (
	"fmt"
	"time"

	"github.com/rds-go/rds/transport/iwarp/ddp"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// Two sides settle what their connection carries.
func ExampleBlock_Negotiate() {
	own := xctl.Block{
		Caps:   xctl.CapTarget | xctl.CapInitiator | xctl.CapCredit | xctl.CapRNR,
		MaxSRQ: xctl.DefaultMaxSRQ, Credit: xctl.DefaultCredit, Incarnation: 1,
	}
	peer := own
	peer.Caps, peer.Incarnation = xctl.CapTarget|xctl.CapCredit, 2

	request, _ := own.Offer(nil, []byte("hello"))
	answer, upper, _ := peer.Negotiate(request)
	fmt.Printf("%s: the peer takes part in %v\n", upper, answer.Caps)

	reply, _ := answer.AppendTo(nil, []byte("welcome"))
	agreed, upper, _ := own.Settle(reply)
	fmt.Printf("%s: we in %v\n", upper, agreed.Caps)

	agreed, _, _ = own.Settle([]byte("from a plain peer"))
	fmt.Println("extended:", agreed.Extended)
	// Output:
	// hello: the peer takes part in target, credit
	// welcome: we in initiator, credit
	// extended: false
}

// A queue runs dry, and its messages are sent again when it has buffers.
func ExampleSender() {
	const queue xctl.SRQN = 7
	now := time.Unix(0, 0)
	sender := xctl.NewSender(queue, xctl.DefaultCredit, xctl.DefaultRetries)
	inbound := xctl.NewInbound(xctl.InboundConfig{RNR: true})

	// arrive is what a receiver does with a message of one segment.
	arrive := func(msn uint32, ready bool) (nak xctl.NAK) {
		h := ddp.Untagged{Last: true, ULP: rdmap.OpSend.Control(), QN: queue.QN(), MSN: msn}
		r := inbound.Find(queue)
		if r == nil {
			r = inbound.Adopt(queue, &h)
		}
		if a, _ := r.Arrive(&h); a == xctl.ArrivalFirst {
			if ready {
				r.Take()
			} else {
				nak, _ = r.NotReady()
			}
		}
		fmt.Println("message", msn, "delivered:", r.Advance(&h, 100))
		return nak
	}

	first, second := sender.Begin(100), uint32(0)
	sender.End()
	nak := arrive(first, false)
	second = sender.Begin(101) // before the NAK is there
	sender.End()
	arrive(second, true)

	_ = sender.NAK(nak, now)
	fmt.Println(sender.Next(now), nak.Code, nak.Wait())
	now = now.Add(nak.Wait())

	resume := sender.Resume()
	_ = inbound.Resume(resume)
	for sender.Next(now) == xctl.StepReplay {
		id, msn := sender.Replay()
		sender.End()
		fmt.Println("again", id)
		arrive(msn, true)
	}
	// Output:
	// message 1 delivered: false
	// message 2 delivered: false
	// wait not ready 1ms
	// again 100
	// message 3 delivered: true
	// again 101
	// message 4 delivered: true
}

// A control message is written and read.
func ExampleBacklog() {
	var b xctl.Backlog
	b.Credit(xctl.Credit{SRQ: 7, Delivered: 8, Limit: 24})
	b.Credit(xctl.Credit{SRQ: 7, Delivered: 9, Limit: 25})
	b.NAK(xctl.NAK{SRQ: 8, MSN: 3, Code: xctl.NAKUnknown})
	message := b.AppendTo(nil, xctl.MaxMessage)

	it := xctl.Iterate(message)
	for it.Next() {
		switch it.Type() {
		case xctl.TypeCredit:
			fmt.Printf("%v %+v\n", it.Type(), it.Credit())
		case xctl.TypeNAK:
			fmt.Printf("%v %v\n", it.Type(), it.NAK().Code)
		}
	}
	fmt.Println(len(message), "octets", it.Err())
	// Output:
	// NAK unknown SRQ
	// CREDIT {SRQ:7 Delivered:9 Limit:25}
	// 36 octets <nil>
}
