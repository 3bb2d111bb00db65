package conformance

import (
	"net"
	"syscall"

	"github.com/rds-go/rds/rds"
)

// Which transport a socket sends by. A host that is its own peer is served by
// neither, and nobody is refused.
var transportCases = []test{
	{"transport/of no kind", func(l *lab) {
		s := l.near()
		l.fails("a name of none", s.SetTransport("ib"), syscall.EINVAL)
		l.must(s.SetTransport(rds.WireAuto))
	}},
	{"transport/decides for a host that is unknown", func(l *lab) {
		a, b := l.pair()
		l.must(a.SetTransport(rds.WireTCP))
		l.send(a, b.LocalAddrPort(), "by TCP")
		l.expect(b, "by TCP")
		l.send(b, a.LocalAddrPort(), "back")
		l.expect(a, "back")
		other := l.near()
		if err := other.SetTransport(rds.WireXRC); l.differs() {
			l.fails("XRC", err, syscall.ENOPROTOOPT)
			return
		} else if err != nil {
			l.Fatal(err)
		}
		l.refused(other, b, "by XRC")
		l.must(other.SetTransport(rds.WireTCP))
		l.send(other, b.LocalAddrPort(), "by TCP, too")
		l.expect(b, "by TCP, too")
	}},
	{"transport/of hosts that are known", func(l *lab) {
		a, b := l.pair()
		l.send(a, b.LocalAddrPort(), "by any")
		l.expect(b, "by any")
		l.must(a.SetTransport(rds.WireTCP))
		if l.differs() {
			l.send(a, b.LocalAddrPort(), "by TCP")
			l.expect(b, "by TCP")
		} else {
			l.refused(a, b, "by TCP")
			l.must(a.SetTransport(rds.WireXRC))
			l.send(a, b.LocalAddrPort(), "by XRC")
			l.expect(b, "by XRC")
		}
		l.send(b, a.LocalAddrPort(), "receiving is not concerned")
		l.expect(a, "receiving is not concerned")
		l.must(a.SetTransport(rds.WireAuto))
		l.send(a, b.LocalAddrPort(), "by any again")
		l.expect(b, "by any again")
	}},
	{"transport/after close", func(l *lab) {
		s := l.near()
		l.must(s.Close())
		l.fails("closed", s.SetTransport(rds.WireAuto), net.ErrClosed)
	}},
}

// refused checks that a may not send to b, which is served by another transport, or
// that it may if they are one host.
func (l *lab) refused(a, b *rds.Socket, data string) {
	l.Helper()
	to := b.LocalAddrPort()
	if l.OneHost {
		l.send(a, to, data)
		l.expect(b, data)
		return
	}
	l.fails("Send", a.Send(l.patient(), to, []byte(data)), syscall.EOPNOTSUPP)
	l.fails("TrySend", a.TrySend(to, []byte(data)), syscall.EOPNOTSUPP)
	n, err := a.SendBatch(l.patient(), []rds.Outgoing{{To: to, Data: []byte(data)}, {To: to}})
	l.fails("SendBatch", err, syscall.EOPNOTSUPP)
	if n != 0 {
		l.Errorf("%d of a batch were sent", n)
	}
	l.empty(b)
}
