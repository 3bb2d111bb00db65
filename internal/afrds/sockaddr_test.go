//go:build !live

package afrds

import (
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"testing"
)

func TestSockaddrHasTheLayoutOfLinux(t *testing.T) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Skip("needs a little-endian machine, as the vectors are from one")
	}
	for _, c := range []struct{ addr, want string }{
		{"10.9.0.2:4000", "02000fa00a0900020000000000000000"},
		{"[::ffff:10.9.0.2]:4000", "02000fa00a0900020000000000000000"},
		{"[fd00::2]:18634", "0a0048ca00000000fd00000000000000000000000000000200000000"},
		{"[fe80::1%7]:2", "0a00000200000000fe80000000000000000000000000000107000000"},
	} {
		var sa rawSockaddr
		for i := range sa {
			sa[i] = 0xee // put must not depend on what was there
		}
		n, err := sa.put(netip.MustParseAddrPort(c.addr))
		if err != nil || hex.EncodeToString(sa[:n]) != c.want {
			t.Errorf("%s: %x, %v, want %s", c.addr, sa[:n], err, c.want)
		}
	}
}

func TestSockaddrRefusesWhatIsNoAddress(t *testing.T) {
	var sa rawSockaddr
	if _, err := sa.put(netip.AddrPort{}); err != errBadAddress {
		t.Errorf("zero address: %v", err)
	}
	if _, err := sa.put(netip.MustParseAddrPort("[fe80::1%no-such-interface]:2")); err != errBadZone {
		t.Errorf("unknown zone: %v", err)
	}
	for _, b := range [][]byte{{2}, {1, 1, 15: 0}, {10, 0, 0, 1, 15: 0}, {10, 10, 27: 0}} {
		if _, err := parseSockaddr(b); err != errBadSockaddr {
			t.Errorf("%x: %v", b, err)
		}
	}
	for _, b := range [][]byte{nil, make([]byte, 16)} {
		if a, err := parseSockaddr(b); a.IsValid() || err != nil {
			t.Errorf("%d bytes of nothing: %v, %v", len(b), a, err)
		}
	}
}

func TestSockaddrPutDoesNotAllocate(t *testing.T) {
	to := netip.MustParseAddrPort("10.9.0.2:4000")
	var sa rawSockaddr
	if n := testing.AllocsPerRun(100, func() { _, _ = sa.put(to) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzSockaddr(f *testing.F) {
	for _, s := range []string{"02000fa00a0900020000000000000000", "0a000002000000fffe80000000000000000000000000000107000000"} {
		b, _ := hex.DecodeString(s)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		addr, err := parseSockaddr(b)
		if err != nil || !addr.IsValid() {
			return
		}
		var sa rawSockaddr
		n, err := sa.put(addr)
		if err != nil {
			t.Fatalf("%v does not encode: %v", addr, err)
		}
		if again, err := parseSockaddr(sa[:n]); err != nil || again != addr {
			t.Fatalf("%v became %v, %v", addr, again, err)
		}
	})
}
