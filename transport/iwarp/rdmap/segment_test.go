//go:build !live

package rdmap

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/rds-go/rds/transport/iwarp/ddp"
)

// receive does with a segment what a receiver does with each, wherever it stands in the stream.
func receive(b []byte, ops Ops) error {
	var s Segment
	if err := s.Parse(b, ops); err != nil {
		return err
	}
	return decodeBody(&s)
}

func decodeBody(s *Segment) error {
	var (
		read     ReadRequest
		request  AtomicRequest
		response AtomicResponse
		data     Immediate
		term     Terminate
	)
	switch s.Op {
	case OpReadRequest:
		return read.Decode(s.Payload)
	case OpAtomicRequest:
		return request.Decode(s.Payload)
	case OpAtomicResponse:
		return response.Decode(s.Payload)
	case OpImmediate, OpImmediateSolicited:
		return data.Decode(s.Payload)
	case OpTerminate:
		return term.Decode(s.Payload, Hints{})
	}
	return nil
}

const (
	readBody   = "4bc30300 000055e6671d3f30 00000040 c3986700 000055addb40e370"
	readOne    = "4141 00000000 00000001 00000001 00000000" + readBody
	atomicBody = "00000000 00000012 c3986700 000055addb40e378" +
		"ffffffffffffffff 0000000000000000 0000000000000000 ffffffffffffffff"
)

// Bad segments, wherever in a stream they stand, and some that look bad and are not. Each
// refusal is the Terminate it deserves.
var segments = map[string]struct {
	ops     Ops
	cause   Cause  // of the Terminate, 0: the segment is taken
	segment string // hex, white space ignored
}{
	"nothing at all":              {OpsRFC5040, CauseMPAFraming, ""},
	"one octet":                   {OpsRFC5040, CauseMPAFraming, "41"},
	"tagged, 13 octets":           {OpsRFC5040, CauseMPAFraming, "c140 00000001 00000000000000"},
	"untagged, 17 octets":         {OpsRFC5040, CauseMPAFraming, "4143 00000000 00000000 00000001 000000"},
	"DDP version 0, untagged":     {OpsRFC5040, CauseDDPUntaggedVersion, "4043 00000000 00000000 00000001 00000000"},
	"DDP version 2, untagged":     {OpsRFC5040, CauseDDPUntaggedVersion, "4243 00000000 00000000 00000001 00000000"},
	"DDP version 0, tagged":       {OpsRFC5040, CauseDDPTaggedVersion, "c040 00000001 0000000000000000"},
	"DDP version 2, tagged":       {OpsRFC5040, CauseDDPTaggedVersion, "c240 00000001 0000000000000000"},
	"RDMAP version 0":             {OpsRFC5040, CauseVersion, "4103 00000000 00000000 00000001 00000000"},
	"RDMAP version 2, tagged":     {OpsRFC5040, CauseVersion, "c180 00000001 0000000000000000"},
	"reserved bits":               {OpsRFC5040, 0, "7d73 00000000 00000000 00000001 00000000"},
	"reserved bits, tagged":       {OpsRFC5040, 0, "fd70 00000001 0000000000000000"},
	"opcode 8, not agreed":        {OpsRFC5040, CauseOpcode, "4148 00000000 00000000 00000001 00000000 0102030405060708"},
	"opcode 9, not agreed":        {OpsRFC5040, CauseOpcode, "4149 00000000 00000000 00000001 00000000 0102030405060708"},
	"opcode A, not agreed":        {OpsRFC5040, CauseOpcode, "414a 00000000 00000001 00000001 00000000" + atomicBody},
	"opcode B, not agreed":        {OpsRFC5040, CauseOpcode, "414b 00000000 00000003 00000001 00000000 000000110000000000000001"},
	"opcode C":                    {OpsRFC5040 | OpsRFC7306, CauseOpcode, "414c 00000000 00000000 00000001 00000000"},
	"opcode E":                    {OpsRFC5040 | OpsRFC7306, CauseOpcode, "414e 00000000 00000000 00000001 00000000"},
	"opcode F, not agreed":        {OpsRFC5040 | OpsRFC7306, CauseOpcode, "414f 00000000 00000000 00000001 00000000"},
	"Send, tagged":                {OpsRFC5040, CauseOpcode, "c143 00000001 0000000000000000"},
	"Write, untagged":             {OpsRFC5040, CauseOpcode, "4140 00000000 00000000 00000001 00000000"},
	"Send on queue 1":             {OpsRFC5040, CauseDDPInvalidQN, "4143 00000000 00000001 00000001 00000000"},
	"Send on queue 2":             {OpsRFC5040, CauseDDPInvalidQN, "4143 00000000 00000002 00000001 00000000"},
	"Send on queue 3":             {OpsRFC5040, CauseDDPInvalidQN, "4143 00000000 00000003 00000001 00000000"},
	"Send on queue 0x1000":        {OpsRFC5040, CauseDDPInvalidQN, "4143 00000000 00001000 00000001 00000000"},
	"Send on a shared queue":      {OpsRFC5040, CauseDDPInvalidQN, "4143 00000000 58000001 00000001 00000000"},
	"queue before opcode":         {OpsRFC5040, CauseDDPInvalidQN, "410f 00000000 00001000 00000001 00000000"},
	"Read Request on queue 0":     {OpsRFC5040, CauseDDPInvalidQN, "4141 00000000 00000000 00000001 00000000" + readBody},
	"Read Request on 0x1000":      {OpsRFC5040, CauseDDPInvalidQN, "4141 00000000 00001000 00000001 00000000" + readBody},
	"Terminate on queue 0":        {OpsRFC5040, CauseDDPInvalidQN, "4147 00000000 00000000 00000001 00000000 20020000"},
	"Read Request, 4 octets more": {OpsRFC5040, CauseStreamCatastrophic, readOne + "00000000"},
	"Read Request, 20 octets":     {OpsRFC5040, CauseMPAFraming, readOne[:len(readOne)-17]},
	"immediate data, 7 octets":    {OpsRFC5040 | OpsRFC7306, CauseMPAFraming, "4148 00000000 00000000 00000001 00000000 01020304050607"},
	"immediate data, 9 octets":    {OpsRFC5040 | OpsRFC7306, CauseStreamCatastrophic, "4148 00000000 00000000 00000001 00000000 010203040506070809"},
	"Atomic Request, cut":         {OpsRFC5040 | OpsRFC7306, CauseMPAFraming, "414a 00000000 00000001 00000001 00000000" + atomicBody[:len(atomicBody)-2]},
	"Atomic Request, longer":      {OpsRFC5040 | OpsRFC7306, CauseStreamCatastrophic, "414a 00000000 00000001 00000001 00000000" + atomicBody + "00"},
	"Atomic Request, opcode 1":    {OpsRFC5040 | OpsRFC7306, CauseOpcode, "414a 00000000 00000001 00000001 00000000 00000001" + atomicBody[8:]},
	"Atomic Response, cut":        {OpsRFC5040 | OpsRFC7306, CauseMPAFraming, "414b 00000000 00000003 00000001 00000000 0000001100000000000000"},
	"Atomic Response, longer":     {OpsRFC5040 | OpsRFC7306, CauseStreamCatastrophic, "414b 00000000 00000003 00000001 00000000 00000011000000000000000100"},
	"Atomic Response on queue 1":  {OpsRFC5040 | OpsRFC7306, CauseDDPInvalidQN, "414b 00000000 00000001 00000001 00000000 000000110000000000000001"},
	"Terminate, 3 octets":         {OpsRFC5040, CauseMPAFraming, "4147 00000000 00000002 00000001 00000000 200200"},
	"an empty Write, any STag":    {OpsRFC5040, 0, "c140 deadbeef ffffffffffffffff"},
}

func TestSegmentsOfAStream(t *testing.T) {
	t.Parallel()
	for name, c := range segments {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, err := hex.DecodeString(strings.ReplaceAll(c.segment, " ", ""))
			must(t, err)
			err = receive(b, c.ops)
			switch {
			case c.cause == 0 && err != nil:
				t.Fatal(err)
			case c.cause != 0 && err == nil:
				t.Fatalf("it is taken, want %v", c.cause)
			case c.cause != 0 && CauseOf(err) != c.cause:
				t.Fatalf("%v (%v), want %v", CauseOf(err), err, c.cause)
			}
		})
	}
}

// Where a private opcode is agreed, queues that the RFCs do not know are somebody
// else's to judge; the four they know stay theirs.
func TestFurtherQueuesByAgreement(t *testing.T) {
	t.Parallel()
	const ops = OpsRFC5040 | OpsRFC7306 | 1<<OpPrivate
	for _, c := range []struct {
		op   Op
		qn   uint32
		want error
	}{
		{OpSend, 0x58000001, nil},
		{OpSendSolicited, 4, nil},
		{OpImmediate, 0x58000001, nil},
		{OpPrivate, 0x58ffffff, nil},
		{OpPrivate, 0, ddp.ErrInvalidQN},
		{OpPrivate, 3, ddp.ErrInvalidQN},
		{OpSend, 1, ddp.ErrInvalidQN},
		{OpReadRequest, 0x58000001, ddp.ErrInvalidQN},
		{OpTerminate, 0x58000001, ddp.ErrInvalidQN},
		{OpAtomicResponse, 0x58000001, ddp.ErrInvalidQN},
	} {
		var s Segment
		b := ddp.Untagged{Last: true, ULP: c.op.Control(), QN: c.qn, MSN: 1}.AppendTo(nil)
		if err := s.Parse(b, ops); err != c.want || s.Op != c.op {
			t.Errorf("%v on queue %#x: %v, op %v; want %v", c.op, c.qn, err, s.Op, c.want)
		}
	}
}

// A Terminate that is refused for its queue is still seen to be one, so that it
// is not answered by another.
func TestRefusedSegmentKeepsItsOpcode(t *testing.T) {
	t.Parallel()
	s := Segment{Op: OpSend}
	if err := s.Parse(nil, OpsRFC5040); err == nil || s.Op != 0 {
		t.Errorf("nothing: %v, %v", err, s.Op)
	}
	b := ddp.Untagged{Last: true, ULP: OpTerminate.Control(), QN: 0, MSN: 1}.AppendTo(nil)
	if err := s.Parse(b, OpsRFC5040); err != ddp.ErrInvalidQN || s.Op != OpTerminate {
		t.Errorf("Terminate: %v, %v", err, s.Op)
	}
}

func TestSegmentPayloadAliasesTheInput(t *testing.T) {
	t.Parallel()
	b := readSegment(t, "rping-send")
	var s Segment
	must(t, s.Parse(b, OpsRFC5040))
	b[ddp.UntaggedLen] = 0xee
	if s.Payload[0] != 0xee || !bytes.Equal(s.Payload, b[ddp.UntaggedLen:]) {
		t.Error("the payload is a copy")
	}
}
