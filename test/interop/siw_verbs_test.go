//go:build interop

package interop

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"testing"
)

// verbs is one end of a test with verbs: a guest whose siw Debian's programs
// and verbs/verbs.c use, or our side of the bridge with our iWARP. Both ends
// have programs that take the same arguments and print the same lines.
type verbs struct {
	*process
	ours    bool
	program []string // does what verbs/verbs.c does
	rping   []string // does what rping does
}

// siwVerbs is a guest as an end of tests with verbs.
func siwVerbs(guest *process) verbs {
	return verbs{process: guest, program: []string{verbsProgram}, rping: []string{"rping"}}
}

// The port of servers in these tests, and attackSeed of verbs/verbs.c.
const (
	verbsPort  = "7471"
	attackSeed = 200
)

// hashPattern is what verbs/verbs.c prints for n octets with a seed.
func hashPattern(seed, n int) string {
	h := fnv.New64a()
	for i := range n {
		_, _ = h.Write([]byte{byte(seed + i%251)})
	}
	return fmt.Sprintf("%016x", h.Sum64())
}

// verbsServer is a program that serves regions.
type verbsServer struct {
	*program
	verbs   verbs
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
func (v verbs) serve(t *testing.T, regions ...string) *verbsServer {
	t.Helper()
	argv := append(v.program[:len(v.program):len(v.program)], "serve", v.addr.String(), verbsPort)
	s := &verbsServer{verbs: v, program: v.exec(t, append(argv, regions...)...)}
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
	s.expect(t, `listening\n`)
	return s
}

// hash returns the hash of a region's content.
func (s *verbsServer) hash(t *testing.T, region int) string {
	t.Helper()
	s.tell(t, fmt.Sprint("hash ", region))
	return s.expect(t, fmt.Sprintf(`(?m)^hash %d (\S+)\n`, region))[1]
}

// startAttack starts a program that connects to a server and does operations.
func (v verbs) startAttack(t *testing.T, s *verbsServer, ops ...string) *program {
	t.Helper()
	argv := append(v.program[:len(v.program):len(v.program)], "attack", s.verbs.addr.String(), verbsPort)
	s.conns++
	return v.exec(t, append(argv, ops...)...)
}

// lastConn waits for the end of a server's latest connection and returns what
// the server printed from its start on.
func (s *verbsServer) lastConn(t *testing.T) string {
	t.Helper()
	return s.expect(t, fmt.Sprintf(`(?ms)^connected %d$.*^disconnected %[1]d\n`, s.conns))[0]
}

// attack does operations on a server and waits for the end. It returns what the
// attacker printed, and what the server printed of the connection.
func (v verbs) attack(t *testing.T, s *verbsServer, ops ...string) (attacker, served string) {
	t.Helper()
	attacker = v.startAttack(t, s, ops...).succeed(t)
	return attacker, s.lastConn(t)
}

// on writes an operation on a region, at an offset that may be outside.
func (r verbsRegion) on(op string, offset int64, length int) string {
	return fmt.Sprintf("%s:%#x:%#x:%d", op, r.key, r.address+uint64(offset), length)
}
