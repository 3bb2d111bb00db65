package xctl

import (
	"bytes"
	"testing"

	"github.com/rds-go/rds/internal/hexfile"
	"github.com/rds-go/rds/transport/iwarp/ddp"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
)

func aBlock() Block {
	return Block{
		Caps:   CapTarget | CapInitiator | CapCredit | CapRNR | CapSoftRead | CapSoftWrite | CapPing | CapInterleave | CapBigFPDU,
		MaxSRQ: DefaultMaxSRQ, MaxULPDU: 64768, Credit: DefaultCredit, Incarnation: 0x0123456789abcdef,
	}
}

// smallBlock is of a side that only takes messages.
func smallBlock() Block {
	return Block{Caps: CapTarget | CapCredit | CapRNR, Domain: 0xaa, MaxSRQ: 64, Credit: 4, Incarnation: 0xfedcba9876543210}
}

func TestGoldenBlocks(t *testing.T) {
	t.Parallel()
	own, other := aBlock(), smallBlock()
	offer, err := own.Offer(nil, []byte("hi"))
	if want := hexfile.Read(t, "offer"); err != nil || !bytes.Equal(offer, want) {
		t.Errorf("%v, offer is\n%x, want\n%x", err, offer, want)
	}
	a, _, err := other.Negotiate(offer)
	must(t, err)
	answer, err := a.AppendTo(nil, nil)
	if want := hexfile.Read(t, "answer"); err != nil || !bytes.Equal(answer, want) {
		t.Errorf("%v, answer is\n%x, want\n%x", err, answer, want)
	}
}

// everything is a backlog with a record of each type that one holds.
func everything() *Backlog {
	var b Backlog
	b.WriteAck(WriteAck{4})
	b.Credit(Credit{5, 10, 32})
	b.SRQ(SRQ{7, SRQGone})
	b.Home(Home{7, 0xabcd})
	b.Full(Full{0xfedc, true})
	b.Return(Return{0x12345, 0x10030})
	b.Grant(Grant{0x100000, 0x8000})
	b.Ping(Ping{0x1112131415161718})
	b.Pong(Pong{0x0102030405060708})
	b.NAK(NAK{SRQ: 5, MSN: 11, Code: NAKNotReady, Backoff: 4, Info: 16})
	b.Refused(Refused{First: 0x0102030405060708, Count: 3, Code: RefusedPort})
	b.WriteError(WriteError{Ordinal: 3, STag: 0x1234, TO: 0x2000, Cause: rdmap.CauseDDPBounds})
	return &b
}

// collect decodes a message into what a Backlog would hold.
func collect(message []byte) (list []Record, err error) {
	it := Iterate(message)
	for it.Next() {
		switch it.Type() {
		case TypeCredit:
			list = append(list, it.Credit())
		case TypeNAK:
			list = append(list, it.NAK())
		case TypeResume:
			list = append(list, it.Resume())
		case TypeReadError:
			list = append(list, it.ReadError())
		case TypeWriteError:
			list = append(list, it.WriteError())
		case TypeWriteAck:
			list = append(list, it.WriteAck())
		case TypePing:
			list = append(list, it.Ping())
		case TypePong:
			list = append(list, it.Pong())
		case TypeSRQ:
			list = append(list, it.SRQ())
		case TypeHome:
			list = append(list, it.Home())
		case TypeRefused:
			list = append(list, it.Refused())
		case TypeGrant:
			list = append(list, it.Grant())
		case TypeReturn:
			list = append(list, it.Return())
		case TypeFull:
			list = append(list, it.Full())
		}
	}
	return list, it.Err()
}

func TestGoldenControlMessage(t *testing.T) {
	t.Parallel()
	want := hexfile.Read(t, "control")
	got := everything().AppendTo(Header(7).AppendTo(nil), MaxMessage)
	got = AppendTo(AppendTo(got, ReadError{MSN: 9, Cause: rdmap.CauseAccess, Placed: 4096}), Resume{6, 17})
	if !bytes.Equal(got, want) {
		t.Errorf("the message is\n%x, want\n%x", got, want)
	}
	var s rdmap.Segment
	must(t, s.Parse(want, worldOps))
	q := ddp.QueueAt(7)
	if route, err := RouteOf(s.Op, s.Untagged.QN); route != RouteControl || err != nil {
		t.Errorf("goes to %v, %v", route, err)
	}
	if err := CheckHeader(&s, &q); err != nil {
		t.Error(err)
	}
	list, err := collect(s.Payload)
	var again []byte
	for i, r := range list {
		again = AppendTo(again, r)
		if typeOf(r) != Type(s.Payload[len(again)-typeOf(r).Len()]) {
			t.Errorf("record %d is %v", i, typeOf(r))
		}
	}
	known := 0
	for t := range types {
		if Type(t).Known() {
			known++
		}
	}
	if err != nil || len(list) != known || !bytes.Equal(again, s.Payload) {
		t.Errorf("%v, %d records: %+v", err, len(list), list)
	}
}

func typeOf(r Record) Type {
	t, _ := r.encode()
	return t
}
