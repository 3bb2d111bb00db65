package config

import (
	"errors"
	"fmt"
	"net"
	"os"

	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/ipc"
)

// Defaults of a Service.
const (
	DefaultMaxSessions    = 4096
	DefaultSessionsOfUID  = 1024
	DefaultMaxSockets     = 1024
	DefaultSendBudget     = 32 << 20 // bytes
	DefaultSendArena      = 32 << 20 // bytes
	DefaultReceiveArena   = 32 << 20 // bytes
	DefaultMemoryArena    = 32 << 20 // bytes
	DefaultReceiveBacklog = 8 << 20  // bytes
	DefaultSocketMode     = 0o666    // file mode of the socket
)

// Service is what a Service is told once; see daemon.Service.Reload for what may
// change later. The zero value works, but for Path or Listener.
type Service struct {
	// Path is the Unix socket applications attach to. It is made, with Mode,
	// unless Listener is given.
	Path string
	// Listener is a listening Unix socket of type SOCK_SEQPACKET, such as one
	// inherited from a service manager. The Service closes it.
	Listener *net.UnixListener
	// Mode is the socket file's: who may attach. 0 means DefaultSocketMode.
	Mode os.FileMode

	// MaxSessions and MaxSessionsPerUID bound the attached applications, in all
	// and of one user. 0 means the defaults.
	MaxSessions, MaxSessionsPerUID int
	// MaxSockets bounds the sockets of one session.
	MaxSockets int
	// SendBudget bounds what one session has queued or unacknowledged, in bytes
	// of memory over all its sockets and peers.
	SendBudget int
	// SendArena and ReceiveArena size the shared memory of one session, in
	// bytes: powers of two from 1 MiB to 1 GiB. Pages never touched cost nothing.
	// Beyond ReceiveArena there is room for the backlog, and for what is on its way.
	SendArena, ReceiveArena int
	// ReceiveBacklog is how much may wait for one session that does not take it, in
	// bytes of memory over all its sockets, before peers are told to keep what they
	// have for it (on XRC). What is on its way comes on top.
	ReceiveBacklog int
	// MemoryArena is what one session may have for regions and operations, in
	// bytes: a power of two from 1 MiB to 1 GiB. Each piece takes a power of two
	// from 4 KiB.
	MemoryArena int
	// Users bounds what all applications of one user may have together.
	Users UserShares
	// ReportGroups are groups whose members are shown by client.Client.Info what all users have, as
	// root and the user of this process are. Others are shown what is their own.
	ReportGroups []uint32
	// Ports says who may bind which ports; a port that no rule names is
	// anybody's.
	Ports []PortRule
	// Services says the same of who may advertise which service ids of XRC.
	Services []ServiceRule

	// Logger receives one line per change of state; nil means the node's.
	Logger *zap.Logger
}

// Rule reserves the names First to Last for some users and groups.
type Rule[Name uint16 | uint64] struct {
	First, Last Name
	UIDs, GIDs  []uint32
}

// PortRule reserves ports.
type PortRule = Rule[uint16]

// ServiceRule reserves service ids of XRC.
type ServiceRule = Rule[uint64]

// Validate returns nil or one error that names every field out of bounds.
func (c *Service) Validate() error {
	var errs []error
	bad := func(field, why string, v any) {
		errs = append(errs, fmt.Errorf("rds: ServiceConfig.%s = %v: %s", field, v, why))
	}
	if c.Path == "" && c.Listener == nil {
		bad("Path", "a path or a listener is needed", c.Path)
	}
	for _, f := range []struct {
		name string
		v    int
	}{
		{"MaxSessions", c.MaxSessions}, {"MaxSessionsPerUID", c.MaxSessionsPerUID}, {"MaxSockets", c.MaxSockets}, {"SendBudget", c.SendBudget},
		{"ReceiveBacklog", c.ReceiveBacklog},
	} {
		if f.v < 0 {
			bad(f.name, "must not be negative", f.v)
		}
	}
	if c.MaxSockets > ipc.MaxSockets {
		bad("MaxSockets", fmt.Sprintf("must be at most %d", ipc.MaxSockets), c.MaxSockets)
	}
	for _, f := range []struct {
		name string
		v    int
	}{{"SendArena", c.SendArena}, {"ReceiveArena", c.ReceiveArena}, {"MemoryArena", c.MemoryArena}} {
		if v := f.v; v != 0 && (v < 1<<20 || v > 1<<30 || v&(v-1) != 0) {
			bad(f.name, "must be a power of two from 1 MiB to 1 GiB", v)
		}
	}
	c.Users.check(bad)
	for i, r := range c.Ports {
		if r.First > r.Last {
			bad(fmt.Sprintf("Ports[%d]", i), "first port after the last", fmt.Sprintf("%d-%d", r.First, r.Last))
		}
	}
	for i, r := range c.Services {
		if r.First > r.Last {
			bad(fmt.Sprintf("Services[%d]", i), "first id after the last", fmt.Sprintf("%#x-%#x", r.First, r.Last))
		}
	}
	return errors.Join(errs...)
}

func (c *Service) SetDefaults() {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&c.MaxSessions, DefaultMaxSessions)
	def(&c.MaxSessionsPerUID, DefaultSessionsOfUID)
	def(&c.MaxSockets, DefaultMaxSockets)
	def(&c.SendBudget, DefaultSendBudget)
	def(&c.SendArena, DefaultSendArena)
	def(&c.ReceiveArena, DefaultReceiveArena)
	def(&c.MemoryArena, DefaultMemoryArena)
	def(&c.ReceiveBacklog, DefaultReceiveBacklog)
	c.Users.setDefaults()
	if c.Mode == 0 {
		c.Mode = DefaultSocketMode
	}
}

// MaxAddresses bounds the addresses that a node without a list of them listens
// on at the wish of applications: each is a descriptor for good.
const MaxAddresses = 256
