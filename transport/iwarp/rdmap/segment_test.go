//go:build !live

package rdmap

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/rds-go/rds/transport/iwarp/ddp"
)

// step is a segment of a stream and what is made of it: the cause of the
// Terminate, or none.
type step struct {
	segment string // hex, white space ignored
	refused bool
	cause   Cause
}

func taken(segment string) step                { return step{segment: segment} }
func refused(cause Cause, segment string) step { return step{segment, true, cause} }

// inbound is the receiving half of a stream as far as it is a matter of order.
type inbound struct {
	queues [Queues]ddp.Queue
	run    ddp.Run
}

// check returns what is wrong with a segment at this moment.
func (in *inbound) check(s *Segment) error {
	if s.Op.Tagged() {
		return in.run.Check(&s.Tagged, len(s.Payload))
	}
	h := &s.Untagged
	if err := in.queues[h.QN].Check(h); err != nil {
		return err
	}
	switch {
	case !s.Op.Send() && !h.Last, // is always one segment
		// One message after another; a Terminate ends everything.
		h.QN != QueueSend && s.Op != OpTerminate && in.queues[QueueSend].Open():
		return CauseStreamCatastrophic
	}
	return nil
}

func (in *inbound) advance(s *Segment) {
	if s.Op.Tagged() {
		in.run.Advance(&s.Tagged, len(s.Payload))
		return
	}
	in.queues[s.Untagged.QN].Advance(&s.Untagged, len(s.Payload))
}

// receive does with a segment what a receiver does before it looks at memory.
func receive(in *inbound, b []byte, ops Ops) error {
	var s Segment
	if err := s.Parse(b, ops); err != nil {
		return err
	}
	if err := in.check(&s); err != nil {
		return err
	}
	if err := decodeBody(&s); err != nil {
		return err
	}
	in.advance(&s)
	return nil
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
	sendFirst  = "0143 00000000 00000000 00000001 00000000 01020304"
	sendLast   = "4143 00000000 00000000 00000001 00000004 05060708"
	sendWhole  = "4143 00000000 00000000 00000001 00000000 01020304"
	readBody   = "4bc30300 000055e6671d3f30 00000040 c3986700 000055addb40e370"
	readOne    = "4141 00000000 00000001 00000001 00000000" + readBody
	writeOpen  = "8140 00000007 0000000000000064 01020304"
	atomicBody = "00000000 00000012 c3986700 000055addb40e378" +
		"ffffffffffffffff 0000000000000000 0000000000000000 ffffffffffffffff"
)

// Bad input that is found before memory is looked at, and some that looks bad and
// is not. Each refusal is the Terminate it deserves.
var streams = map[string]struct {
	ops   Ops
	steps []step
}{
	"nothing at all":               {OpsRFC5040, []step{refused(CauseMPAFraming, "")}},
	"one octet":                    {OpsRFC5040, []step{refused(CauseMPAFraming, "41")}},
	"tagged, 13 octets":            {OpsRFC5040, []step{refused(CauseMPAFraming, "c140 00000001 00000000000000")}},
	"untagged, 17 octets":          {OpsRFC5040, []step{refused(CauseMPAFraming, "4143 00000000 00000000 00000001 000000")}},
	"DDP version 0, untagged":      {OpsRFC5040, []step{refused(CauseDDPUntaggedVersion, "4043 00000000 00000000 00000001 00000000")}},
	"DDP version 2, untagged":      {OpsRFC5040, []step{refused(CauseDDPUntaggedVersion, "4243 00000000 00000000 00000001 00000000")}},
	"DDP version 0, tagged":        {OpsRFC5040, []step{refused(CauseDDPTaggedVersion, "c040 00000001 0000000000000000")}},
	"DDP version 2, tagged":        {OpsRFC5040, []step{refused(CauseDDPTaggedVersion, "c240 00000001 0000000000000000")}},
	"RDMAP version 0":              {OpsRFC5040, []step{refused(CauseVersion, "4103 00000000 00000000 00000001 00000000")}},
	"RDMAP version 2, tagged":      {OpsRFC5040, []step{refused(CauseVersion, "c180 00000001 0000000000000000")}},
	"reserved bits":                {OpsRFC5040, []step{taken("7d73 00000000 00000000 00000001 00000000"), taken("fd70 00000001 0000000000000000")}},
	"opcode 8, not agreed":         {OpsRFC5040, []step{refused(CauseOpcode, "4148 00000000 00000000 00000001 00000000 0102030405060708")}},
	"opcode 9, not agreed":         {OpsRFC5040, []step{refused(CauseOpcode, "4149 00000000 00000000 00000001 00000000 0102030405060708")}},
	"opcode A, not agreed":         {OpsRFC5040, []step{refused(CauseOpcode, "414a 00000000 00000001 00000001 00000000"+atomicBody)}},
	"opcode B, not agreed":         {OpsRFC5040, []step{refused(CauseOpcode, "414b 00000000 00000003 00000001 00000000 000000110000000000000001")}},
	"opcode C":                     {OpsRFC5040 | OpsRFC7306, []step{refused(CauseOpcode, "414c 00000000 00000000 00000001 00000000")}},
	"opcode E":                     {OpsRFC5040 | OpsRFC7306, []step{refused(CauseOpcode, "414e 00000000 00000000 00000001 00000000")}},
	"opcode F, not agreed":         {OpsRFC5040 | OpsRFC7306, []step{refused(CauseOpcode, "414f 00000000 00000000 00000001 00000000")}},
	"Send, tagged":                 {OpsRFC5040, []step{refused(CauseOpcode, "c143 00000001 0000000000000000")}},
	"Write, untagged":              {OpsRFC5040, []step{refused(CauseOpcode, "4140 00000000 00000000 00000001 00000000")}},
	"Send on queue 1":              {OpsRFC5040, []step{refused(CauseDDPInvalidQN, "4143 00000000 00000001 00000001 00000000")}},
	"Send on queue 2":              {OpsRFC5040, []step{refused(CauseDDPInvalidQN, "4143 00000000 00000002 00000001 00000000")}},
	"Send on queue 3":              {OpsRFC5040, []step{refused(CauseDDPInvalidQN, "4143 00000000 00000003 00000001 00000000")}},
	"Send on queue 0x1000":         {OpsRFC5040, []step{refused(CauseDDPInvalidQN, "4143 00000000 00001000 00000001 00000000")}},
	"Send on a shared queue":       {OpsRFC5040, []step{refused(CauseDDPInvalidQN, "4143 00000000 58000001 00000001 00000000")}},
	"queue before opcode":          {OpsRFC5040, []step{refused(CauseDDPInvalidQN, "410f 00000000 00001000 00000001 00000000")}},
	"Read Request on queue 0":      {OpsRFC5040, []step{refused(CauseDDPInvalidQN, "4141 00000000 00000000 00000001 00000000"+readBody)}},
	"Read Request on 0x1000":       {OpsRFC5040, []step{refused(CauseDDPInvalidQN, "4141 00000000 00001000 00000001 00000000"+readBody)}},
	"Terminate on queue 0":         {OpsRFC5040, []step{refused(CauseDDPInvalidQN, "4147 00000000 00000000 00000001 00000000 20020000")}},
	"Terminate, MSN 2":             {OpsRFC5040, []step{refused(CauseDDPMSNRange, "4147 00000000 00000002 00000002 00000000 20020000")}},
	"first Send MSN 0":             {OpsRFC5040, []step{refused(CauseDDPMSNRange, "4143 00000000 00000000 00000000 00000000")}},
	"first Send MSN 2":             {OpsRFC5040, []step{refused(CauseDDPMSNRange, "4143 00000000 00000000 00000002 00000000")}},
	"Send MSN 1 twice":             {OpsRFC5040, []step{taken(sendWhole), refused(CauseDDPMSNRange, sendWhole)}},
	"first segment MO 4":           {OpsRFC5040, []step{refused(CauseDDPInvalidMO, sendLast)}},
	"second segment with a gap":    {OpsRFC5040, []step{taken(sendFirst), refused(CauseDDPInvalidMO, "4143 00000000 00000000 00000001 00000005 06")}},
	"a Send in two segments":       {OpsRFC5040, []step{taken(sendFirst), taken(sendLast)}},
	"a Write within a Send":        {OpsRFC5040, []step{taken(sendFirst), taken("c140 00000007 0000000000000064 01"), taken(sendLast)}},
	"a Terminate within a Send":    {OpsRFC5040, []step{taken(sendFirst), taken("4147 00000000 00000002 00000001 00000000 20020000")}},
	"another Send within a Send":   {OpsRFC5040, []step{taken(sendFirst), refused(CauseStreamCatastrophic, "4145 00000000 00000000 00000001 00000004 05")}},
	"a Read within a Send":         {OpsRFC5040, []step{taken(sendFirst), refused(CauseStreamCatastrophic, readOne)}},
	"an atomic within a Send":      {OpsRFC5040 | OpsRFC7306, []step{taken(sendFirst), refused(CauseStreamCatastrophic, "414a 00000000 00000001 00000001 00000000"+atomicBody)}},
	"a Read after a Send":          {OpsRFC5040, []step{taken(sendFirst), taken(sendLast), taken(readOne)}},
	"Read Request, not last":       {OpsRFC5040, []step{refused(CauseStreamCatastrophic, "0141 00000000 00000001 00000001 00000000"+readBody)}},
	"Read Request, MO 8":           {OpsRFC5040, []step{refused(CauseDDPInvalidMO, "4141 00000000 00000001 00000001 00000008"+readBody)}},
	"Read Request, MSN 2":          {OpsRFC5040, []step{refused(CauseDDPMSNRange, "4141 00000000 00000001 00000002 00000000"+readBody)}},
	"Read Request, 4 octets more":  {OpsRFC5040, []step{refused(CauseStreamCatastrophic, readOne+"00000000")}},
	"Read Request, 20 octets":      {OpsRFC5040, []step{refused(CauseMPAFraming, readOne[:len(readOne)-17])}},
	"immediate data, 7 octets":     {OpsRFC5040 | OpsRFC7306, []step{refused(CauseMPAFraming, "4148 00000000 00000000 00000001 00000000 01020304050607")}},
	"immediate data, 9 octets":     {OpsRFC5040 | OpsRFC7306, []step{refused(CauseStreamCatastrophic, "4148 00000000 00000000 00000001 00000000 010203040506070809")}},
	"immediate data, not last":     {OpsRFC5040 | OpsRFC7306, []step{refused(CauseStreamCatastrophic, "0148 00000000 00000000 00000001 00000000 0102030405060708")}},
	"immediate data behind a Send": {OpsRFC5040 | OpsRFC7306, []step{taken(sendWhole), taken("4148 00000000 00000000 00000002 00000000 0102030405060708")}},
	"an atomic behind a Read":      {OpsRFC5040 | OpsRFC7306, []step{taken(readOne), taken("414a 00000000 00000001 00000002 00000000" + atomicBody)}},
	"Atomic Request, cut":          {OpsRFC5040 | OpsRFC7306, []step{refused(CauseMPAFraming, "414a 00000000 00000001 00000001 00000000"+atomicBody[:len(atomicBody)-2])}},
	"Atomic Request, longer":       {OpsRFC5040 | OpsRFC7306, []step{refused(CauseStreamCatastrophic, "414a 00000000 00000001 00000001 00000000"+atomicBody+"00")}},
	"Atomic Request, opcode 1":     {OpsRFC5040 | OpsRFC7306, []step{refused(CauseOpcode, "414a 00000000 00000001 00000001 00000000 00000001"+atomicBody[8:])}},
	"Atomic Response, cut":         {OpsRFC5040 | OpsRFC7306, []step{refused(CauseMPAFraming, "414b 00000000 00000003 00000001 00000000 0000001100000000000000")}},
	"Atomic Response, longer":      {OpsRFC5040 | OpsRFC7306, []step{refused(CauseStreamCatastrophic, "414b 00000000 00000003 00000001 00000000 00000011000000000000000100")}},
	"Atomic Response on queue 1":   {OpsRFC5040 | OpsRFC7306, []step{refused(CauseDDPInvalidQN, "414b 00000000 00000001 00000001 00000000 000000110000000000000001")}},
	"Terminate, 3 octets":          {OpsRFC5040, []step{refused(CauseMPAFraming, "4147 00000000 00000002 00000001 00000000 200200")}},
	"Write with a gap":             {OpsRFC5040, []step{taken(writeOpen), refused(CauseDDPBounds, "c140 00000007 0000000000000069 05")}},
	"Write, another STag":          {OpsRFC5040, []step{taken(writeOpen), refused(CauseDDPInvalidSTag, "c140 00000008 0000000000000068 05")}},
	"Write, continued":             {OpsRFC5040, []step{taken(writeOpen), taken("c140 00000007 0000000000000068 05"), taken("c140 00000009 0000000000000001 05")}},
	"a response within a Write":    {OpsRFC5040, []step{taken(writeOpen), refused(CauseStreamCatastrophic, "c142 00000007 0000000000000068 05")}},
	"an empty Write, any STag":     {OpsRFC5040, []step{taken("c140 deadbeef ffffffffffffffff")}},
}

func TestSegmentsOfAStream(t *testing.T) {
	t.Parallel()
	for name, c := range streams {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var in inbound
			for i, s := range c.steps {
				b, err := hex.DecodeString(strings.ReplaceAll(s.segment, " ", ""))
				must(t, err)
				before := in
				err = receive(&in, b, c.ops)
				switch {
				case !s.refused && err != nil:
					t.Fatalf("segment %d: %v", i, err)
				case s.refused && err == nil:
					t.Fatalf("segment %d is taken, want %v", i, s.cause)
				case s.refused && CauseOf(err) != s.cause:
					t.Fatalf("segment %d: %v (%v), want %v", i, CauseOf(err), err, s.cause)
				case s.refused && in != before:
					t.Fatalf("segment %d is refused and changes what is expected", i)
				}
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
