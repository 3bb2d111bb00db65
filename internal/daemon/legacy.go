package daemon

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/statefile"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/rds/datagram"
)

// Legacy is what a node and its service leave to the process that takes their place: a
// description, and descriptors of sockets and of shared memory. Whoever has a Legacy
// closes its Files.
type Legacy struct {
	State     []byte
	Files     []*os.File
	StateFile int // number in Files of the file config.Node.State, locked; -1: none
}

// Close is Legacy.Close of package rds.
func (l *Legacy) Close() {
	ipc.CloseFiles(l.Files)
	l.Files = nil
}

// LegacyVersion is the version of Legacy.State that this package leaves and takes. A process
// that is asked for another version leaves nothing.
const LegacyVersion = 2

// legacyState is Legacy.State. Files are named by their index in Legacy.Files; -1 is none.
type legacyState struct {
	Version    int
	Generation uint32
	Addresses  []netip.Addr
	Listeners  []legacyListener
	StateFile  int
	Secret     uint64                // mr.Device.Secret
	Peers      []legacyPeer          // ascending by number
	Told       []node.ToldPeer       // peers that have ended and whose numbers applications may have
	Number     uint64                // node.Node.HighestNumber; 0: left by a daemon that did not note it
	Stored     bool                  // the predecessor has ended: see ForStore
	Sequences  []node.LegacySequence // receive sequences, if there is no state file, or Stored is set
	Service    *legacyService
}

type legacyListener struct {
	Local netip.AddrPort
	File  int
}

// legacyPeer is a connection. Its links have ended.
type legacyPeer struct {
	Index         uint32
	Local, Remote netip.Addr
	Passive       bool
	Core          conn.Legacy
	Received      [conn.MaxPaths]uint64 // next sequence number expected on each path
	Loose         [conn.MaxPaths]uint64 // conn.Inbound.Loose of each path
	Wire          string                // transport that serves the pair; empty: not known
	Carries       uint8                 // carriage
	Queue         []legacyQueued
}

// legacyQueued is a message that waits, for a host that is down or a port that is stopped.
type legacyQueued struct {
	Session         uint64
	Socket          uint32 // number of the sending socket
	Path            int
	Sequence        uint64 // 0: the message was never picked
	Written         bool
	Sport, Dport    uint16
	Token           uint64
	Notify, Failure bool
	Deadline        time.Time
	Extensions      []byte
	Data            []byte
	Lent            bool // Data was in the send arena, at Offset
	Offset          uint32
	Op              *legacyOperation // nil: none
}

// legacyService is a service. Attach is its listening socket.
type legacyService struct {
	Attach   int
	Path     string // path of the socket file; empty: the listener was given
	Next     uint64
	Maps     uint64   // congestion maps counted in the table
	Slots    []uint32 // generations of the slots of the table
	Openings []int    // connections that have said nothing yet
	Sessions []legacySession
	Orphans  []legacyOrphans
}

// legacySession is an application.
type legacySession struct {
	ID                          uint64
	Cred                        ipc.Credentials
	Owner                       *statefile.Owner // nil: left by a daemon that did not note it
	Command                     string
	Since                       time.Time
	Again, Spills, Slots        bool
	Promised                    int
	Backlog                     int64
	Soft                        int // receive memory that is not late
	Layout                      ipc.Layout
	Conn, Segment               int
	Ear, Self, Bell             int
	Submitted, Completed        ipc.Ring
	Ahead                       uint64
	Spill                       ipc.SpillState
	Heard                       []uint64 // peers that the application knows by their numbers; none: all
	Frees                       []uint32
	Events                      []ipc.Entry
	Left                        []ipc.Entry // fates that found the ring full
	Blocks                      []legacyBlock
	Gens                        []uint16
	Met                         []uint32 // connections that the session uses
	Sockets                     []legacySocket
	Lingering                   []legacyLingering
	SentMessages, SentBytes     uint64
	RecvMessages, RecvBytes     uint64
	Stalls                      uint64
	Blocked, Congested, RunFull uint64
}

// legacyBlock is a block of the receive arena that the application has messages in.
type legacyBlock struct {
	Off    uint32
	Size   int
	Lent   int64
	Socket uint32 // number of the receiving socket, which may have been closed
}

// legacySocket is a socket of an application.
type legacySocket struct {
	ID                      uint32
	Bound, Connected        netip.AddrPort
	SendBuffer, ReceiveSize int
	Linger                  time.Duration
	RecvErr, Sent           bool
	TOS                     uint32
	GaveBytes, GaveCount    int64
	Settled                 [2]uint64 // bytes and messages
	Counted                 [5]uint64
	Regions                 []legacyRegion
	Messages                []legacyMessage
}

// legacyRegion is a region in the session's memory.
type legacyRegion struct {
	Kept        mr.Kept
	Flags       uint32
	Offset, Len int
}

// legacyMessage was received, and found no room in the application's memory.
type legacyMessage struct {
	Peer     uint32
	Sequence uint64
	Sport    uint16
	Path     uint8
	HasDest  bool
	Dest     uint64
	Data     []byte
}

func (s *legacyState) encode() ([]byte, error) {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(s); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func decodeLegacy(b []byte) (*legacyState, error) {
	s := new(legacyState)
	if err := gob.NewDecoder(bytes.NewReader(b)).Decode(s); err != nil {
		return nil, fmt.Errorf("rds: legacy: %w", err)
	}
	if s.Version != LegacyVersion {
		return nil, fmt.Errorf("rds: legacy of version %d, want %d: %w", s.Version, LegacyVersion, datagram.ErrNotSupported)
	}
	return s, nil
}
