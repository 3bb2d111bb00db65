//go:build interop

package interop

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"testing"
)

// regionSpec is a region to register. Rights are letters: r and w let the peer
// read and write, o takes a protection domain that no connection is in.
type regionSpec struct {
	rights string
	length int
}

// verbsRegion is memory that a server has registered.
type verbsRegion struct {
	regionSpec
	key     uint32
	address uint64
}

// receiveLength is how long a message a server of regions takes.
const receiveLength = 8192

// regionServer is a program that serves regions: verbs/verbs.c or rdsverbs.
type regionServer struct {
	*verbsServer
	receives int // receives that each connection keeps posted
	regions  []verbsRegion
	conns    int // how many there were
}

// lines are regular expressions for what the two programs print, with a place
// for the number of a region or a connection.
var lines = map[bool]struct{ region, hash, dereg, began, ended string }{
	false: {
		region: `(?m)^region %d key (\S+) address (\S+) .*\n`,
		hash:   `(?m)^hash %d (\S+)\n`,
		dereg:  `(?m)^deregistered %d\n`,
		began:  `(?m)^connected %d\n`,
		ended:  `(?m)^disconnected %d\n`,
	},
	true: {
		region: `(?m)^{"type":"region","name":"%d","key":"(\w+)","address":"(\w+)".*\n`,
		hash:   `(?m)^{"type":"hash","name":"%d","hash":"(\w+)".*\n`,
		dereg:  `(?m)^{"type":"deregistered","name":"%d"}\n`,
		began:  `(?m)^{"type":"connected","connection":%d,.*\n`,
		ended:  `(?m)^{"type":"end","connection":%d,.*\n`,
	},
}

// serve starts a program that serves regions and keeps some receives posted on
// each connection.
func (v verbs) serve(t *testing.T, receives int, regions ...regionSpec) *regionServer {
	t.Helper()
	s := &regionServer{verbsServer: v.newServer(), receives: receives}
	receive := fmt.Sprintf("%d:%d", receives, receiveLength)
	argv := []string{verbsProgram, "serve", s.at.Addr().String(), s.port(), "recv:" + receive}
	if v.ours {
		argv = []string{v.rdsverbs, "serve", "--commands", "-a", s.at.Addr().String(), "-p", s.port(), "--recv", receive}
	}
	for i, r := range regions {
		if v.ours {
			argv = append(argv, "--region", fmt.Sprintf("%d:%d:%s", i, r.length, r.rights))
		} else {
			argv = append(argv, fmt.Sprintf("%s:%d", r.rights, r.length))
		}
	}
	s.start(t, argv...)
	for i, r := range regions {
		match := s.expect(t, fmt.Sprintf(lines[v.ours].region, i))
		key, err1 := strconv.ParseUint(match[1], 0, 32)
		address, err2 := strconv.ParseUint(match[2], 0, 64)
		if err1 != nil || err2 != nil {
			t.Fatalf("%q: %v, %v", match[0], err1, err2)
		}
		s.regions = append(s.regions, verbsRegion{r, uint32(key), address})
	}
	return s
}

// hash returns the hash of a region's content.
func (s *regionServer) hash(t *testing.T, region int) string {
	t.Helper()
	s.tell(t, fmt.Sprint("hash ", region))
	return s.expect(t, fmt.Sprintf(lines[s.verbs.ours].hash, region))[1]
}

// dereg takes a region back.
func (s *regionServer) dereg(t *testing.T, region int) {
	t.Helper()
	s.tell(t, fmt.Sprint("dereg ", region))
	s.expect(t, fmt.Sprintf(lines[s.verbs.ours].dereg, region))
}

// awaitConn waits for the beginning of the latest connection.
func (s *regionServer) awaitConn(t *testing.T) {
	t.Helper()
	s.expect(t, fmt.Sprintf(lines[s.verbs.ours].began, s.conns))
}

// awaitEnd waits for the end of the latest connection and checks that what was
// posted on it came back. It returns what we say was sent to end it, if it is
// ours.
func (s *regionServer) awaitEnd(t *testing.T) refusal {
	t.Helper()
	line := s.expect(t, fmt.Sprintf(lines[s.verbs.ours].ended, s.conns))[0]
	if s.verbs.ours { // it does not tell of what was flushed
		return parseEnd(t, line, "us")
	}
	// A message frees its receive, which is posted again, and siw may not take
	// that back if the connection is already gone.
	text := s.out[:s.seen]
	flushed, freed := 0, strings.Count(text, fmt.Sprintf("\nreceived %d ", s.conns))
	for _, c := range parseCompleted(text) {
		switch {
		case c.conn != s.conns || c.op != "recv":
		case c.status == statusFlushed:
			flushed += c.count
		default:
			freed += c.count
		}
	}
	if flushed > s.receives || flushed < s.receives-freed {
		t.Errorf("%d of %d receives were flushed, %d used", flushed, s.receives, freed)
	}
	return none
}

// awaitMessage waits for a message of attackers and returns what a server of ours
// tells of it besides, or an empty record.
func (s *regionServer) awaitMessage(t *testing.T, length int) (m message) {
	t.Helper()
	hash := hashPattern(attackSeed, length)
	if !s.verbs.ours {
		s.expect(t, fmt.Sprintf(`(?m)^received %d length %d hash %s\n`, s.conns, length, hash))
		return m
	}
	line := s.expect(t, fmt.Sprintf(`(?m)^{"type":"completion","connection":%d,"op":"receive",.*\n`, s.conns))[0]
	if err := json.Unmarshal([]byte(line), &m); err != nil || m.Code != 0 || m.Length != length || m.Hash != hash {
		t.Errorf("%v: %swant %d octets with hash %s", err, line, length, hash)
	}
	return m
}

// message is a received one as rdsverbs prints it.
type message struct {
	Length    int
	Code      int `json:"status_code"`
	Hash      string
	Solicited bool
}

// attackSeed is s of hashPattern for what attackers send.
const attackSeed = 200

// quit ends the server.
func (s *regionServer) quit(t *testing.T) {
	t.Helper()
	s.tell(t, "quit")
	s.succeed(t)
}

// hashPattern is the hash of n octets of region s: with both programs octet i is
// s + i modulo 251.
func hashPattern(s, n int) string {
	h := fnv.New64a()
	for i := range n {
		_, _ = h.Write([]byte{byte(s + i%251)})
	}
	return fmt.Sprintf("%016x", h.Sum64())
}
