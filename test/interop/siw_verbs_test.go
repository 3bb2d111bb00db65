//go:build interop

package interop

import (
	"net/netip"
	"strconv"
	"sync"
	"testing"

	"github.com/rds-go/rds/test/interop/peer"
)

// verbs is one end of a test with verbs: a guest whose siw Debian's programs
// and verbs/verbs.c use, or our side of the bridge with our iWARP and rdsverbs.
type verbs struct {
	*process
	l        *lab
	ours     bool
	rdsverbs string // our program, on our side
}

// siwVerbs is a guest as an end of tests with verbs.
func (l *lab) siwVerbs(guest *process) verbs { return verbs{process: guest, l: l} }

var rdsverbsOnce = sync.OnceValues(func() (string, error) { return goTool("rdsverbs", "build", "../../cmd/rdsverbs") })

// ourVerbs is our side as such an end. It has an address of its own.
func (l *lab) ourVerbs(t *testing.T, addr netip.Addr) verbs {
	t.Helper()
	program, err := rdsverbsOnce()
	must(t, err)
	l.addAddr(t, addr)
	return verbs{process: l.startProgram(t, "node", addr), l: l, ours: true, rdsverbs: program}
}

// tcp lists the TCP connections that an end has on a port, or listeners.
func (v verbs) tcp(t *testing.T, port uint16, listeners bool) (list []peer.TCPConn) {
	t.Helper()
	must(t, v.call(t.Context(), peer.OpTCP, peer.TCPArgs{Port: port, Listeners: listeners}, &list))
	return list
}

// verbsServer is a program that takes connections.
type verbsServer struct {
	*program
	verbs verbs
	at    netip.AddrPort
}

// port is where it takes them, as an argument.
func (s *verbsServer) port() string { return strconv.Itoa(int(s.at.Port())) }

// newServer chooses a port that no server has had, so that what remains of an
// earlier one is not in the way.
func (v verbs) newServer() *verbsServer {
	v.l.ports++
	return &verbsServer{verbs: v, at: netip.AddrPortFrom(v.addr, firstPort+v.l.ports)}
}

const firstPort = 7471

// start starts the program and waits until it takes connections. What programs
// say of that they say before.
func (s *verbsServer) start(t *testing.T, argv ...string) {
	t.Helper()
	s.program = s.verbs.exec(t, argv...)
	err := poll(t.Context(), func() (bool, error) { return len(s.verbs.tcp(t, s.at.Port(), true)) > 0, nil })
	must(t, err)
}

// testVerbMessages sends messages of all sizes, empty ones and those that fill
// their receive to the last octet, and one that asks for attention. There are no
// more than there are receives: iWARP has nothing that makes a sender wait.
func testVerbMessages(t *testing.T, sender, target verbs) {
	s := target.serve(t, 16, faultRegions...)
	lengths := []int{100, 0, 1, 1423, 1424, 1425, receiveLength, receiveLength, 3, 4}
	var ops []operation
	for _, n := range lengths {
		ops = append(ops, operation{op: "send", length: n})
	}
	a := sender.startAttack(t, s, append(ops, operation{op: "se", length: 17})...)
	for i, n := range lengths {
		if m := s.awaitMessage(t, n); m.Solicited {
			t.Errorf("message %d: %+v", i, m)
		}
	}
	if m := s.awaitMessage(t, 17); m.Solicited != target.ours {
		t.Errorf("the solicited one: %+v", m)
	}
	if got := a.finish(t, target.ours); got.refusal != none {
		t.Errorf("the sender was told %v", got.refusal)
	}
	s.awaitEnd(t)
	s.quit(t)
}
