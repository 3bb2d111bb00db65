//go:build live && !race

// Under the race detector sync.Pool drops at random what it is given.

package afrds

import "testing"

func TestSendAndReceiveDoNotAllocate(t *testing.T) {
	a, _ := listenUDP(t)
	b, to := listenUDP(t)
	msg, buf := make([]byte, 1024), make([]byte, 1024)
	n := testing.AllocsPerRun(200, func() {
		if _, err := a.SendTo(msg, to, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := a.SendTo(msg, to, MsgDontWait); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := b.RecvFrom(buf, 0); err != nil {
				t.Fatal(err)
			}
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
