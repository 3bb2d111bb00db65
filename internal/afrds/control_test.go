//go:build !live

package afrds

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"testing"
)

// appendCmsg encodes one control message as the kernel's put_cmsg does.
func appendCmsg(b []byte, level, kind int32, body []byte) []byte {
	size := cmsgHeaderSize + len(body)
	if wordSize == 8 {
		b = binary.NativeEndian.AppendUint64(b, uint64(size))
	} else {
		b = binary.NativeEndian.AppendUint32(b, uint32(size))
	}
	b = binary.NativeEndian.AppendUint32(b, uint32(level))
	b = binary.NativeEndian.AppendUint32(b, uint32(kind))
	b = append(b, body...)
	return append(b, make([]byte, cmsgAlign(size)-size)...)
}

func u64(v uint64) []byte { return binary.NativeEndian.AppendUint64(nil, v) }

func statusBody(s Status) []byte {
	b := binary.NativeEndian.AppendUint32(u64(s.Token), uint32(s.Status))
	return append(b, 0, 0, 0, 0) // struct padding
}

// appendControl encodes c in the order the kernel uses.
func appendControl(b []byte, c Control) []byte {
	for _, s := range c.Statuses {
		b = appendCmsg(b, solRDS, cmsgRDMAStatus, statusBody(s))
	}
	if c.HasCongestionUpdate {
		b = appendCmsg(b, solRDS, cmsgCongUpdate, u64(c.CongestionUpdate))
	}
	if c.HasRDMACookie {
		b = appendCmsg(b, solRDS, cmsgRDMADest, u64(c.RDMACookie))
	}
	return b
}

func TestControlIsParsed(t *testing.T) {
	for name, want := range map[string]Control{
		"nothing":     {},
		"congestion":  {CongestionUpdate: 1<<63 | 1, HasCongestionUpdate: true},
		"cookie":      {RDMACookie: 0x1122334455667788, HasRDMACookie: true},
		"completions": {Statuses: []Status{{7, StatusSuccess}, {8, StatusDropped}, {9, -1}}},
	} {
		got, err := parseControl(appendControl(nil, want))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, want)
		}
	}
}

func TestControlSkipsWhatItDoesNotKnow(t *testing.T) {
	b := appendCmsg(nil, 1, 29, make([]byte, 16))  // SOL_SOCKET, SCM_TIMESTAMP
	b = appendCmsg(b, solRDS, 11, make([]byte, 3)) // RDS_CMSG_RXPATH_LATENCY
	b = appendCmsg(b, solRDS, cmsgCongUpdate, u64(5))
	got, err := parseControl(b)
	if want := (Control{CongestionUpdate: 5, HasCongestionUpdate: true}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestControlRefusesBadLengths(t *testing.T) {
	good := appendCmsg(nil, solRDS, cmsgCongUpdate, u64(5))
	short := bytes.Clone(good)
	short[0] = cmsgHeaderSize - 1
	long := bytes.Clone(good)
	long[0]++
	for name, b := range map[string][]byte{
		"length below the header":  short,
		"length beyond the buffer": long,
		"small congestion update":  appendCmsg(nil, solRDS, cmsgCongUpdate, u64(5)[:7]),
		"small cookie":             appendCmsg(nil, solRDS, cmsgRDMADest, u64(5)[:7]),
		"small status":             appendCmsg(nil, solRDS, cmsgRDMAStatus, statusBody(Status{})[:11]),
	} {
		if _, err := parseControl(b); err != errBadControl {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzControl(f *testing.F) {
	f.Add(appendControl(nil, Control{CongestionUpdate: 1, HasCongestionUpdate: true, Statuses: []Status{{1, 2}}}))
	f.Add(appendCmsg(nil, 1, 29, make([]byte, 16)))
	f.Fuzz(func(t *testing.T, b []byte) {
		first, err := parseControl(b)
		if err != nil {
			return
		}
		again, err := parseControl(appendControl(nil, first))
		if err != nil || !reflect.DeepEqual(again, first) {
			t.Fatalf("%+v became %+v, %v", first, again, err)
		}
	})
}
