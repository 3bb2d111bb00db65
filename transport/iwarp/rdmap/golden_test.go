//go:build !live

package rdmap

import (
	"bytes"
	"encoding/binary"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rds-go/rds/internal/hexfile"
	"github.com/rds-go/rds/transport/iwarp/ddp"
	"github.com/rds-go/rds/transport/iwarp/mpa"
)

// readSegment is the ULPDU of a golden FPDU.
func readSegment(t testing.TB, name string) []byte {
	t.Helper()
	b := hexfile.Read(t, name)
	n := int(binary.BigEndian.Uint16(b))
	return b[mpa.HeaderLen : mpa.HeaderLen+n]
}

type bytesBody string

func (b bytesBody) AppendTo(dst []byte) []byte { return append(dst, b...) }

// golden is one file of testdata. Those of rping and siw are from live
// conversations with Linux's driver.
type golden struct {
	name  string
	noCRC bool
	op    Op
	t     ddp.Tagged
	u     ddp.Untagged
	body  body
}

func goldens() []golden {
	return []golden{
		{name: "rtr-write", op: OpWrite, t: tagged(OpWrite, 1, 0)},
		{name: "rtr-read", op: OpReadRequest, u: untagged(OpReadRequest, 1), body: ReadRequest{SourceSTag: 1}},
		{name: "rtr-send", op: OpSend, u: untagged(OpSend, 1)},
		{name: "rping-send", noCRC: true, op: OpSend, u: untagged(OpSend, 1),
			body: bytesBody("\x00\x00\x55\xad\xdb\x40\xe3\x70\xc3\x98\x67\x00\x00\x00\x00\x40")},
		{name: "rping-send-crc", op: OpSend, u: untagged(OpSend, 1),
			body: bytesBody("\x00\x00\x55\x7d\x58\xee\xb3\x70\x01\x9f\xf9\x00\x00\x00\x00\x40")},
		{name: "rping-read-request", noCRC: true, op: OpReadRequest, u: untagged(OpReadRequest, 1),
			body: ReadRequest{SinkSTag: 0x4bc30300, SinkTO: 0x55e6671d3f30, Size: 64, SourceSTag: 0xc3986700, SourceTO: 0x55addb40e370}},
		{name: "rping-read-response", noCRC: true, op: OpReadResponse, t: tagged(OpReadResponse, 0x4bc30300, 0x55e6671d3f30), body: bytesBody(rpingText)},
		{name: "rping-write", noCRC: true, op: OpWrite, t: tagged(OpWrite, 0x415b6f00, 0x55addb40e550), body: bytesBody(rpingText)},
		{name: "send-invalidate", op: OpSendSolicitedInvalidate,
			u:    ddp.Untagged{Last: true, ULP: 0x46, ULPData: 0x0badca00, MSN: 7, MO: 1424},
			body: bytesBody("end")},
		{name: "immediate", op: OpImmediateSolicited, u: untagged(OpImmediateSolicited, 2), body: Immediate(0x0102030405060708)},
		{name: "atomic-swap", op: OpAtomicRequest, u: untagged(OpAtomicRequest, 5), body: AtomicRequest{
			Op: CompareSwap, ID: 0x11, STag: 0xc3986700, TO: 0x55addb40e370,
			Add: 0xcafef00d, AddMask: 0xffffffff, Compare: 1, CompareMask: 0xffffffff}},
		{name: "atomic-add", op: OpAtomicRequest, u: untagged(OpAtomicRequest, 6), body: AtomicRequest{
			Op: FetchAdd, ID: 0x12, STag: 0xc3986700, TO: 0x55addb40e378, Add: 1<<64 - 1, CompareMask: 1<<64 - 1}},
		{name: "atomic-response", op: OpAtomicResponse, u: untagged(OpAtomicResponse, 1), body: AtomicResponse{ID: 0x11, Value: 1}},
		{name: "terminate-crc", op: OpTerminate, u: TerminateHeader(), body: &Terminate{Cause: CauseMPACRC}},
		{name: "terminate-qn", op: OpTerminate, u: TerminateHeader(), body: &Terminate{
			Cause: CauseDDPInvalidQN, HasLen: true, SegmentLen: 0x22, HasDDP: true,
			DDP: ddp.Untagged{Last: true, ULP: 0x43, QN: 0x1000, MSN: 1}.AppendTo(nil)}},
		{name: "terminate-write", op: OpTerminate, u: TerminateHeader(), body: &Terminate{
			Cause: CauseDDPInvalidSTag, HasLen: true, SegmentLen: 78, HasDDP: true,
			DDP: ddp.Tagged{Last: true, ULP: 0x40, STag: 0xdeadbe00, TO: 0x1000}.AppendTo(nil)}},
		{name: "terminate-read", op: OpTerminate, u: TerminateHeader(), body: &Terminate{
			Cause: CauseBounds, HasLen: true, SegmentLen: 46, HasDDP: true, HasRead: true,
			DDP:  ddp.Untagged{Last: true, ULP: 0x41, QN: 1, MSN: 3}.AppendTo(nil),
			Read: ReadRequest{SinkSTag: 0x4bc30300, SinkTO: 0x55e6671d3f30, Size: 0x2000, SourceSTag: 0xc3986700, SourceTO: 0x55addb40f000}}},
	}
}

func TestGoldenFPDUs(t *testing.T) {
	t.Parallel()
	for _, g := range goldens() {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			file := hexfile.Read(t, g.name)
			var s Segment
			must(t, s.Parse(readSegment(t, g.name), OpsRFC5040|OpsRFC7306))
			if s.Op != g.op || s.Tagged != g.t || s.Untagged != g.u || !s.Last() {
				t.Errorf("parsed %+v", s)
			}
			var ulpdu []byte
			if g.op.Tagged() {
				ulpdu = g.t.AppendTo(nil)
			} else {
				ulpdu = g.u.AppendTo(nil)
			}
			if g.body != nil {
				checkBody(t, s.Payload, g.body)
				ulpdu = g.body.AppendTo(ulpdu)
			} else if len(s.Payload) != 0 {
				t.Errorf("payload % x", s.Payload)
			}
			if got := mpa.AppendFPDU(nil, ulpdu, !g.noCRC); !bytes.Equal(got, file) {
				t.Errorf("encoded % x\nwant    % x", got, file)
			}
		})
	}
}

// checkBody decodes b as what want is and compares.
func checkBody(t *testing.T, b []byte, want body) {
	t.Helper()
	var got body
	var err error
	switch want := want.(type) {
	case bytesBody:
		got = bytesBody(b)
	case ReadRequest:
		var r ReadRequest
		err = r.Decode(b)
		got = r
	case AtomicRequest:
		var r AtomicRequest
		err = r.Decode(b)
		got = r
	case AtomicResponse:
		var r AtomicResponse
		err = r.Decode(b)
		got = r
	case Immediate:
		var d Immediate
		err = d.Decode(b)
		got = d
	case *Terminate:
		var term Terminate
		if err := term.Decode(b, Hints{}); err != nil || !sameTerminate(term, *want) {
			t.Errorf("decoded %+v, %v; want %+v", term, err, want)
		}
		return
	}
	if err != nil || got != want {
		t.Errorf("decoded %+v, %v; want %+v", got, err, want)
	}
}

func sameTerminate(a, b Terminate) bool {
	return a.Cause == b.Cause && a.HasLen == b.HasLen && a.HasDDP == b.HasDDP && a.HasRead == b.HasRead &&
		a.SegmentLen == b.SegmentLen && a.SIW == b.SIW && a.Read == b.Read && bytes.Equal(a.DDP, b.DDP)
}

// Every file is somebody's golden.
func TestGoldensAreUsed(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("testdata", "*.hex"))
	must(t, err)
	names := []string{"siw-terminate-crc"} // TestSIWTerminateFromALiveDriver
	for _, g := range goldens() {
		names = append(names, g.name)
	}
	for _, f := range files {
		if name := strings.TrimSuffix(filepath.Base(f), ".hex"); !slices.Contains(names, name) {
			t.Errorf("%s is not read by any test", f)
		}
	}
	if len(files) != len(names) {
		t.Errorf("%d files for %d goldens", len(files), len(names))
	}
}
