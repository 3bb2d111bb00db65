package config

import "testing"

// What a node takes is what it tells its peers, in units of 4 KiB.
func TestMaxMessageIsRoundedDown(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]int{0: MaxMessage, 8192: 8192, 10_000: 8192, 65_536: 65_536, MaxMessage - 1: MaxMessage - 8192, MaxMessage: MaxMessage} {
		c := Node{MaxMessage: n}
		if err := c.Validate(); err != nil {
			t.Error(err)
		}
		if c.SetDefaults(); c.MaxMessage != want {
			t.Errorf("%d becomes %d, want %d", n, c.MaxMessage, want)
		}
	}
}
