//go:build interop

package interop

import (
	"fmt"
	"hash/fnv"
	"net/netip"
	"strconv"
	"strings"
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
	if err != nil {
		t.Fatal(err)
	}
	l.addAddr(t, addr)
	return verbs{process: l.startProgram(t, "node", addr), l: l, ours: true, rdsverbs: program}
}

// tcp lists the TCP connections that an end has on a port, or listeners.
func (v verbs) tcp(t *testing.T, port uint16, listeners bool) (list []peer.TCPConn) {
	t.Helper()
	if err := v.call(t.Context(), peer.OpTCP, peer.TCPArgs{Port: port, Listeners: listeners}, &list); err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
}

// hashPattern is what verbs/verbs.c prints for n octets with a seed.
func hashPattern(seed, n int) string {
	h := fnv.New64a()
	for i := range n {
		_, _ = h.Write([]byte{byte(seed + i%251)})
	}
	return fmt.Sprintf("%016x", h.Sum64())
}

// regionServer is a server of regions.
type regionServer struct {
	*verbsServer
	regions []verbsRegion
	conns   int // how many there were
}

// verbsRegion is memory that a server has registered.
type verbsRegion struct {
	key     uint32
	address uint64
	length  int
}

// serve starts a program that serves regions, each RIGHTS:LENGTH, and waits
// until it listens.
func (v verbs) serve(t *testing.T, regions ...string) *regionServer {
	t.Helper()
	s := &regionServer{verbsServer: v.newServer()}
	s.start(t, append([]string{verbsProgram, "serve", v.addr.String(), s.port()}, regions...)...)
	for _, r := range regions {
		if strings.HasPrefix(r, "recv:") {
			continue
		}
		match := s.expect(t, `region \d+ key (\S+) address (\S+) length (\d+) .*\n`)
		key, err1 := strconv.ParseUint(match[1], 0, 32)
		address, err2 := strconv.ParseUint(match[2], 0, 64)
		length, err3 := strconv.Atoi(match[3])
		if err1 != nil || err2 != nil || err3 != nil {
			t.Fatalf("%q: %v, %v, %v", match[0], err1, err2, err3)
		}
		s.regions = append(s.regions, verbsRegion{uint32(key), address, length})
	}
	return s
}

// hash returns the hash of a region's content.
func (s *regionServer) hash(t *testing.T, region int) string {
	t.Helper()
	s.tell(t, fmt.Sprint("hash ", region))
	return s.expect(t, fmt.Sprintf(`(?m)^hash %d (\S+)\n`, region))[1]
}

// startAttack starts a program that connects to a server and does operations.
func (v verbs) startAttack(t *testing.T, s *regionServer, ops ...string) *program {
	t.Helper()
	argv := []string{verbsProgram, "attack", s.at.Addr().String(), s.port()}
	s.conns++
	return v.exec(t, append(argv, ops...)...)
}

// lastConn waits for the end of a server's latest connection and returns what
// the server printed from its start on.
func (s *regionServer) lastConn(t *testing.T) string {
	t.Helper()
	return s.expect(t, fmt.Sprintf(`(?ms)^connected %d$.*^disconnected %[1]d\n`, s.conns))[0]
}

// attack does operations on a server and waits for the end. It returns what the
// attacker printed, and what the server printed of the connection.
func (v verbs) attack(t *testing.T, s *regionServer, ops ...string) (attacker, served string) {
	t.Helper()
	attacker = v.startAttack(t, s, ops...).succeed(t)
	return attacker, s.lastConn(t)
}

// on writes an operation on a region, at an offset that may be outside.
func (r verbsRegion) on(op string, offset int64, length int) string {
	return fmt.Sprintf("%s:%#x:%#x:%d", op, r.key, r.address+uint64(offset), length)
}
