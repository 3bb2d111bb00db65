package xctl

import (
	"fmt"
	"testing"
)

// Calls that Next or Arrive have not asked for are the owner's bugs.
func TestCallsOutOfTurnPanic(t *testing.T) {
	t.Parallel()
	stopped := func() *Sender {
		s := NewSender(1, 2, 0)
		send(t, s, 1)
		mustNAK(t, s, epoch, NAK{SRQ: 1, MSN: 1, Code: NAKNotReady, Info: 2})
		return s
	}
	open := func() *Sender {
		s := NewSender(1, 2, 0)
		s.Begin(1)
		return s
	}
	resumed := func() *Sender {
		s := stopped()
		s.Resume()
		return s
	}
	used := func() *Sender {
		s := NewSender(1, 2, 0)
		send(t, s, 2)
		return s
	}
	entry := func() (*Inbound, *Receiver) {
		in := NewInbound(InboundConfig{RNR: true})
		return in, in.Adopt(3, head(3, 1, 0, true))
	}
	first := func() (*Inbound, *Receiver) {
		in, r := entry()
		arrive(t, r, head(3, 1, 0, true), ArrivalFirst)
		return in, r
	}
	for name, f := range map[string]func(){
		"Begin while one is open":       func() { open().Begin(2) },
		"Begin while stopped":           func() { stopped().Begin(2) },
		"Begin before a replay":         func() { resumed().Begin(2) },
		"Begin beyond the limit":        func() { used().Begin(3) },
		"Replay while one is open":      func() { open().Replay() },
		"Replay while stopped":          func() { stopped().Replay() },
		"Replay of nothing":             func() { NewSender(1, 2, 0).Replay() },
		"Withdraw of nothing":           func() { NewSender(1, 2, 0).Withdraw() },
		"End of nothing":                func() { NewSender(1, 2, 0).End() },
		"Resume without a stop":         func() { NewSender(1, 2, 0).Resume() },
		"Take twice":                    func() { _, r := first(); r.Take(); r.Take() },
		"Refuse twice":                  func() { _, r := first(); r.Refuse(NAKForbidden, 0); r.Refuse(NAKForbidden, 0) },
		"NotReady after Take":           func() { _, r := first(); r.Take(); _, _ = r.NotReady() },
		"Advance without a decision":    func() { _, r := first(); r.Advance(head(3, 1, 0, true), 1) },
		"Resume amid a message":         func() { s := stopped(); s.open = true; s.Resume() },
		"Replay beyond the limit, open": func() { s := resumed(); s.Replay(); s.Replay() },
	} {
		func() {
			defer func() {
				if p := fmt.Sprint(recover()); len(p) < 6 || p[:6] != "xctl: " {
					t.Errorf("%s: %v", name, p)
				}
			}()
			f()
		}()
	}
}
