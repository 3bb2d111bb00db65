//go:build live

package iwarp

import (
	"testing"

	"github.com/rds-go/rds/transport/iwarp/mpa"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
)

// A peer-to-peer connection is up, for the responder, with the first FPDU, of
// whatever kind; an empty Send takes no receive request then. And it sends
// nothing before.
func TestRTROpensTheResponder(t *testing.T) {
	t.Parallel()
	prefix := mpa.Prefix{IRD: 1, ORD: 1, PeerToPeer: true, RTR: mpa.RTRRead | mpa.RTRWrite | mpa.RTRSend}
	f := &mpa.Frame{Rev: 2, Enhanced: true, Private: prefix.AppendTo(nil)}
	tests := map[string]struct {
		rtr   func(p *raw) []byte
		after func(t *testing.T, p *raw, e *end)
	}{
		"read": {func(p *raw) []byte { return p.read(rdmap.ReadRequest{SinkSTag: 7, SourceSTag: 1}) }, func(t *testing.T, p *raw, e *end) {
			if s := p.segment(rdmap.OpReadResponse); len(s.Payload) != 0 || s.Tagged.STag != 7 {
				t.Errorf("answered with %+v", s)
			}
		}},
		"write": {func(*raw) []byte { return emptyWrite() }, nil},
		"send":  {func(p *raw) []byte { return p.sendMessage(nil) }, nil},
		"message": {func(p *raw) []byte { return p.sendMessage([]byte("first")) }, func(t *testing.T, p *raw, e *end) {
			e.want(1, Success, OpReceive)
			e.post(1, SGE{})
		}},
	}
	for name, test := range tests {
		inBubble(t, name, func(t *testing.T) {
			e := newEnd(t, openDevice(t, Config{EventLoops: 1}), QPConfig{})
			m := e.reg(64, allRights)
			e.post(1, m.SGE(0, 64))
			to, done := accepting(t, e, ConnParams{})
			p := dialRaw(t, to)
			p.write(f.AppendTo(nil))
			p.opened(p.setup(), f)
			select {
			case err := <-done:
				t.Fatalf("Accept returned without an RTR: %v", err)
			default:
			}
			p.send(test.rtr(p))
			must(t, <-done)
			if test.after != nil {
				test.after(t, p, e)
			}
			e.send(WorkRequest{ID: 9, Flags: Signaled, Inline: []byte("go")})
			if s := p.segment(rdmap.OpSend); string(s.Payload) != "go" {
				t.Errorf("sent %q", s.Payload)
			}
			e.want(9, Success, OpSend)
			p.send(p.sendMessage(nil)) // this one is for the program
			e.want(1, Success, OpReceive)
		})
	}
}
