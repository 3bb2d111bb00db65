//go:build !live

package afrds

import (
	"encoding/binary"
	"net/netip"
	"reflect"
	"testing"
)

// writer builds packed records, the counterpart of record.
type writer struct {
	b  []byte
	v6 bool
}

func (w *writer) u8(v uint8)   { w.b = append(w.b, v) }
func (w *writer) u32(v uint32) { w.b = binary.NativeEndian.AppendUint32(w.b, v) }
func (w *writer) u64(v uint64) { w.b = binary.NativeEndian.AppendUint64(w.b, v) }
func (w *writer) port(v uint16) {
	w.b = binary.BigEndian.AppendUint16(w.b, v)
}

func (w *writer) addr(a netip.Addr) {
	if w.v6 {
		b := a.As16()
		w.b = append(w.b, b[:]...)
		return
	}
	b := a.As4()
	w.b = append(w.b, b[:]...)
}

func (w *writer) text(s string, n int) {
	w.b = append(w.b, s...)
	w.b = append(w.b, make([]byte, n-len(s))...)
}

// write encodes a record as struct rds_info_... of include/uapi/linux/rds.h.
func (w *writer) write(v any) {
	switch v := v.(type) {
	case Counter:
		w.text(v.Name, 32)
		w.u64(v.Value)
	case Connection:
		w.u64(v.NextTx)
		w.u64(v.NextRx)
		w.addr(v.Local)
		w.addr(v.Remote)
		w.text(v.Transport, 16)
		w.u8(uint8(v.Flags))
		if !w.v6 {
			w.u8(v.TOS)
		}
	case Message:
		w.u64(v.Sequence)
		w.u32(v.Length)
		w.addr(v.Local.Addr())
		w.addr(v.Remote.Addr())
		w.port(v.Local.Port())
		w.port(v.Remote.Port())
		w.u8(v.Flags)
		w.u8(v.TOS)
	case SocketInfo:
		w.u32(v.SendBuffer)
		w.addr(v.Bound.Addr())
		w.addr(v.Connected.Addr())
		w.port(v.Bound.Port())
		w.port(v.Connected.Port())
		w.u32(v.ReceiveBuffer)
		w.u64(v.Inode)
	case TCPSocket:
		w.addr(v.Local.Addr())
		w.port(v.Local.Port())
		w.addr(v.Remote.Addr())
		w.port(v.Remote.Port())
		w.u64(v.HeaderRemaining)
		w.u64(v.PayloadRemaining)
		w.u32(v.LastSentNext)
		w.u32(v.LastExpectedUna)
		w.u32(v.LastSeenUna)
		if !w.v6 {
			w.u8(v.TOS)
		}
	}
}

func ends(v6 bool) (a, b netip.AddrPort) {
	if v6 {
		return netip.MustParseAddrPort("[fd00::1]:4000"), netip.MustParseAddrPort("[fd00::2]:4001")
	}
	return netip.MustParseAddrPort("10.9.0.2:4000"), netip.MustParseAddrPort("10.9.0.3:4001")
}

// checkReport encodes two records, decodes them and compares.
func checkReport[T any](t *testing.T, p report[T], v6 bool, v T) {
	t.Helper()
	w := writer{v6: v6}
	w.write(v)
	size := len(w.b)
	w.write(v)
	got, err := p.append(nil, w.b, size, v6)
	if err != nil || !reflect.DeepEqual(got, []T{v, v}) {
		t.Errorf("%T: %+v, %v, want twice %+v", v, got, err, v)
	}
	if _, err := p.append(nil, w.b[1:], size, v6); err != ErrBadRecord {
		t.Errorf("%T: cut report: %v", v, err)
	}
	if _, err := p.append(nil, w.b, size+1, v6); err != ErrBadRecord {
		t.Errorf("%T: other size: %v", v, err)
	}
	if got, err := p.append(nil, nil, 0, v6); len(got) != 0 || err != nil {
		t.Errorf("%T: empty report: %v, %v", v, got, err)
	}
}

func TestReportsAreParsed(t *testing.T) {
	checkReport(t, counterReport, false, Counter{"recv_drop_old_seq", 1 << 40})
	for _, v6 := range []bool{false, true} {
		a, b := ends(v6)
		var tos uint8 = 3
		if v6 {
			tos = 0 // the IPv6 records of connections and TCP sockets have none
		}
		checkReport(t, connectionReport, v6, Connection{9, 8, a.Addr(), b.Addr(), "tcp", ConnectionConnected, tos})
		checkReport(t, messageReport, v6, Message{7, 6, a, b, 1, 2})
		checkReport(t, socketReport, v6, SocketInfo{1, 2, a, b, 1 << 50})
		checkReport(t, tcpSocketReport, v6, TCPSocket{a, b, 48, 3, 4, 5, 6, tos})
	}
}

func FuzzReports(f *testing.F) {
	a, b := ends(false)
	for _, v := range []any{Connection{1, 2, a.Addr(), b.Addr(), "tcp", 4, 0}, Counter{"conn_reset", 1}, SocketInfo{1, 2, a, b, 3}} {
		var w writer
		w.write(v)
		f.Add(w.b, false)
	}
	f.Fuzz(func(t *testing.T, b []byte, v6 bool) {
		refuzz(t, connectionReport, b, v6)
		refuzz(t, messageReport, b, v6)
		refuzz(t, socketReport, b, v6)
		refuzz(t, tcpSocketReport, b, v6)
		refuzz(t, counterReport, b, v6)
	})
}

// refuzz decodes b as records of p, encodes them, decodes again and compares.
func refuzz[T any](t *testing.T, p report[T], b []byte, v6 bool) {
	size := p.size4
	if v6 {
		size = p.size6
	}
	first, err := p.append(nil, b, size, v6)
	if err != nil {
		return
	}
	w := writer{v6: v6}
	for _, v := range first {
		w.write(v)
	}
	again, err := p.append(nil, w.b, size, v6)
	if err != nil || !reflect.DeepEqual(again, first) {
		t.Fatalf("%+v became %+v, %v", first, again, err)
	}
}
