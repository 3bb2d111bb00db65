package wire

import "testing"

func TestLimits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		n    int
		want Limit
		told int
	}{
		{8192, 2, 8192}, {10_000, 2, 8192}, {12288, 3, 12288}, {65536, 16, 65536}, {MaxPayload - LimitUnit, 254, MaxPayload - 2*LimitUnit},
		{MaxPayload - 1, 254, MaxPayload - 2*LimitUnit}, {MaxPayload, LimitAll, MaxPayload}, {1 << 30, LimitAll, MaxPayload},
	} {
		if l := LimitOf(c.n); l != c.want || l.Octets() != c.told {
			t.Errorf("%d octets: limit %d, %d octets, want %d, %d", c.n, l, l.Octets(), c.want, c.told)
		}
	}
	if n := Limit(1).Octets(); n != CongestionMapSize {
		t.Errorf("a limit below that of every node is %d octets", n)
	}
	if n := Limit(0).Octets(); n != MaxPayload {
		t.Errorf("no limit is %d octets", n)
	}
}
