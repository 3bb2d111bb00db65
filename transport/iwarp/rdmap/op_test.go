//go:build !live

package rdmap

import (
	"fmt"
	"testing"
)

// The table of RFC 5040 section 4.3 and RFC 7306 section 10.
func TestOpcodes(t *testing.T) {
	t.Parallel()
	const (
		isTagged = 1 << iota
		isSend
		isImmediate
		invalidates
		solicited
		in7306
		nowhere
	)
	for _, c := range []struct {
		op      Op
		control uint8
		queue   uint32
		is      int
		name    string
	}{
		{OpWrite, 0x40, 0, isTagged, "RDMA Write"},
		{OpReadRequest, 0x41, 1, 0, "RDMA Read Request"},
		{OpReadResponse, 0x42, 0, isTagged, "RDMA Read Response"},
		{OpSend, 0x43, 0, isSend, "Send"},
		{OpSendInvalidate, 0x44, 0, isSend | invalidates, "Send with Invalidate"},
		{OpSendSolicited, 0x45, 0, isSend | solicited, "Send with SE"},
		{OpSendSolicitedInvalidate, 0x46, 0, isSend | solicited | invalidates, "Send with SE and Invalidate"},
		{OpTerminate, 0x47, 2, 0, "Terminate"},
		{OpImmediate, 0x48, 0, isImmediate | in7306, "Immediate Data"},
		{OpImmediateSolicited, 0x49, 0, isImmediate | solicited | in7306, "Immediate Data with SE"},
		{OpAtomicRequest, 0x4a, 1, in7306, "Atomic Request"},
		{OpAtomicResponse, 0x4b, 3, in7306, "Atomic Response"},
		{OpPrivate, 0x4f, 0, nowhere, "private"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			is := 0
			for flag, yes := range map[int]bool{
				isTagged: c.op.Tagged(), isSend: c.op.Send(), isImmediate: c.op.Immediate(),
				invalidates: c.op.Invalidates(), solicited: c.op.Solicited(),
				in7306: OpsRFC7306.Has(c.op), nowhere: !(OpsRFC5040 | OpsRFC7306).Has(c.op),
			} {
				if yes {
					is |= flag
				}
			}
			if is != c.is {
				t.Errorf("is %#b, want %#b", is, c.is)
			}
			if c.op.Control() != c.control || c.op.Queue() != c.queue || c.op.String() != c.name {
				t.Errorf("control %#x, queue %d, %q", c.op.Control(), c.op.Queue(), c.op)
			}
			// Reserved bits are ignored (RFC 5040 section 4.1).
			for _, reserved := range []byte{0, 0x10, 0x20, 0x30} {
				if op, err := ParseControl(c.control | reserved); op != c.op || err != nil {
					t.Errorf("%#x: %v, %v", c.control|reserved, op, err)
				}
			}
			for _, version := range []byte{0, 0x80, 0xc0} {
				if _, err := ParseControl(version | c.control&0xf); err != CauseVersion {
					t.Errorf("version %d: %v", version>>6, err)
				}
			}
		})
	}
	for _, op := range []Op{0xc, 0xd, 0xe} {
		if _, err := ParseControl(op.Control()); err != CauseOpcode {
			t.Errorf("%v: %v", op, err)
		}
		if (OpsRFC5040 | OpsRFC7306).Has(op) || op.String() != fmt.Sprintf("opcode %#x", uint8(op)) {
			t.Errorf("%v is known", op)
		}
	}
	if every := Ops(0xffff); every.Has(16) || every.Has(0x43) || Op(0x13).String() != "opcode 0x13" {
		t.Error("an opcode has more than four bits")
	}
}
