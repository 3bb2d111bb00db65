//go:build !live

package node

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/xrc"
)

// deafTransport makes links whose owner never hears that a port of the peer is full.
type deafTransport struct{ *xrc.Transport }

func (d deafTransport) Dial(ctx context.Context, local, remote netip.Addr, path int) (transport.Link, error) {
	l, err := d.Transport.Dial(ctx, local, remote, path)
	if err != nil {
		return nil, err
	}
	return deafLink{l}, nil
}

type deafLink struct{ transport.Link }

func (d deafLink) Start(h transport.Handler) error {
	return d.Link.Start(deafHandler{h})
}

type deafHandler struct{ transport.Handler }

func (deafHandler) Hold([]uint16, bool) {}

func (d deafHandler) Message(h *wire.Header, payload []byte, owned *buf.Buf) {
	if !h.IsCongestion() {
		d.Handler.Message(h, payload, owned)
	}
}

// A peer that does not care that a socket is full is granted octets like any other, and
// goes on sending to the socket. Its link ends when the socket holds twice its bounds, and
// an overrun more at most; another peer's does not, and all that either sent arrives in the
// end.
func TestPeerThatIgnoresFullPorts(t *testing.T) {
	bubble(t, newMemLab, func(t *testing.T, l *lab) {
		cfg := rdstest.ReservedConfig()
		cfg.Port = l.Port
		cfg.SetDefaults()
		cfg.Linger = -1
		o := xrcOptions(&cfg, 0, nil, nil, nil)
		o.Network = l.Sockets
		tr, err := xrc.New(o)
		rdstest.Must(t, err)
		deaf := rdstest.ReservedConfig()
		deaf.Wire, deaf.Transport, deaf.Domain, deaf.SendBuffer = config.WireAuto, deafTransport{tr}, tr.Domain(), 4<<20
		hostile, honest := l.node(deaf), l.node(rdstest.ReservedConfig())
		a, b := l.bind(hostile), l.bind(honest)
		n := l.node(rdstest.ReservedConfig())
		s := l.bind(n)
		to := s.LocalAddrPort()
		rdstest.MustSend(t, b, to, rdstest.Payload(0, 1000))
		const size = 8 << 10
		sent, honestly := uint64(0), uint64(1)
		for rdstest.Counter(t, n, "conn_reset") == 0 {
			before := sent + honestly
			if a.TrySend(to, rdstest.Payload(sent, size)) == nil {
				sent++
			}
			if b.TrySend(to, rdstest.Payload(honestly, size)) == nil {
				honestly++
			}
			most := 2*cfg.ReceiveBuffer + 3*cfg.ReceiveOverrun // what was granted before either heard that the socket is full may come beyond
			if q := &halfOf(s).Queue; q.Bytes.Load() > int64(most) {
				t.Fatalf("%d octets are queued", q.Bytes.Load())
			}
			if sent+honestly == before {
				<-time.After(time.Millisecond)
			}
		}
		if got := halfOf(s).Queue.Bytes.Load(); got <= int64(cfg.ReceiveBuffer+cfg.ReceiveOverrun) {
			t.Errorf("the link of a peer ended when the socket held %d octets", got)
		}
		var from [2]uint64
		for from[0]+from[1] < sent+honestly {
			m := rdstest.MustRecv(t, s)
			k := 0
			if m.From == b.LocalAddrPort() {
				k = 1
			}
			rdstest.Must(t, rdstest.Verify(m.Data, from[k]))
			from[k]++
			m.Release()
		}
		rdstest.WantCounter(t, honest, "conn_reset", 0)
		if r := rdstest.Counter(t, hostile, "conn_reset"); r == 0 {
			t.Error("the link of the peer that ignores full ports was not reset")
		}
		t.Logf("%d messages of one peer, %d of the other", from[0], from[1])
	})
}
