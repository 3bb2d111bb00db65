package mr

import (
	"slices"
	"testing"
)

// The test vector of the paper, and the inverse.
func TestKeyCipherIsSpeck(t *testing.T) {
	t.Parallel()
	var c keyCipher
	c.init(0x1918111009080100)
	if got := c.seal(0x6574694c); got != 0xa86842f2 {
		t.Errorf("sealed %#x", got)
	}
	for n := range uint32(1 << 16) {
		if got := c.open(c.seal(n * 65521)); got != n*65521 {
			t.Fatalf("%#x is opened as %#x", n*65521, got)
		}
	}
	if index, version := c.base(c.key(0xabcdef, 0x12)); index != 0xabcdef || version != 0x12 {
		t.Errorf("index %#x, version %#x", index, version)
	}
}

// TestKeysTellNothingOfOneAnother maps 4,096 regions one after the other, and one 255
// times: keys are spread over all 32 bits, none is near the one before it, and none is 0.
func TestKeysTellNothingOfOneAnother(t *testing.T) {
	t.Parallel()
	for _, again := range []bool{false, true} {
		c := Config{}
		if again {
			c.Small.Items = 1
		}
		g := newRig(t, c)
		var keys []Key
		k, _ := g.region(8, 0, 0)
		for range 4096 {
			keys = append(keys, k)
			if !again {
				k, _ = g.region(8, 0, 0)
				continue
			}
			g.ok(g.own.FreeInvalidate(t.Context(), k))
			k, _ = g.region(8, 0, 0)
		}
		near, flips := 0, [32]int{}
		for i, k := range keys[1:] {
			if k == 0 {
				t.Error("a key is 0")
			}
			if d := int64(k) - int64(keys[i]); d > -4096 && d < 4096 {
				near++
			}
			for bit := range flips {
				flips[bit] += int((k^keys[i])>>bit) & 1
			}
		}
		if near > 1 {
			t.Errorf("one base %v: %d keys are near the ones before them", again, near)
		}
		for bit, n := range flips {
			if n < 1800 || n > 2300 { // 2,047 of 4,095 are expected, with a deviation of 32
				t.Errorf("one base %v: bit %d differs in %d of %d pairs", again, bit, n, len(keys)-1)
			}
		}
		if slices.Sort(keys); len(slices.Compact(keys)) != 4096 {
			t.Errorf("one base %v: a key came twice", again)
		}
	}
}

// TestNoKeyIsZero has the base that a version of would have the key 0 come next.
func TestNoKeyIsZero(t *testing.T) {
	g := parallelRig(t, Config{})
	none, _ := g.table.cipher.base(0)
	g.table.next = none - 1
	k, _ := g.region(8, 0, 0)
	if g.index(k) != none+1 {
		t.Errorf("index %d is given out, %d would have the key 0", g.index(k), none)
	}
	g.wantFault(g.reader("r"), g.read(0, 1), NoRegion)
}

func TestSecretsAreDrawn(t *testing.T) {
	t.Parallel()
	draw := func() Key {
		d, err := New(Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		k, err := d.NewOwner(OwnerConfig{}).Map(make([]byte, 8), Options{Domain: d.NewDomain()})
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	if a, b, c := draw(), draw(), draw(); a == b && b == c {
		t.Error("without a seed all devices begin with the same key")
	}
}
