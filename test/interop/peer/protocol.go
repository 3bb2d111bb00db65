package peer

import (
	"encoding/json"
	"net/netip"
	"syscall"
)

// SecondAddr is the address a guest has besides its own.
func SecondAddr(a netip.Addr) netip.Addr {
	b := a.As4()
	b[3] += 100
	return netip.AddrFrom4(b)
}

// Commands, with the types of their arguments and results.
const (
	OpBind     = "bind"     // BindArgs, BindResult
	OpClose    = "close"    // SocketArgs
	OpPing     = "ping"     // PingArgs, PingResult
	OpSend     = "send"     // SendArgs, SendResult
	OpRecv     = "recv"     // RecvArgs, RecvResult
	OpProgress = "progress" // CallArgs, ProgressResult
	OpCancel   = "cancel"   // CallArgs
	OpCounters = "counters" // nothing, map[string]uint64
	OpLinks    = "links"    // nothing, []Link
	OpState    = "state"    // nothing, whatever the stack shows of itself
	OpTCP      = "tcp"      // TCPArgs, []TCPConn
	OpDestroy  = "destroy"  // TCPConn
	OpExec     = "exec"     // ExecArgs, ExecResult
	OpOutput   = "output"   // OutputArgs, OutputResult
	OpInput    = "input"    // InputArgs
	OpSysctl   = "sysctl"   // SysctlArgs
)

// BindArgs asks for a socket. Buffer sizes of 0 are the stack's defaults.
type BindArgs struct {
	Local         netip.AddrPort
	SendBuffer    int
	ReceiveBuffer int
}

// BindResult names the socket in later commands.
type BindResult struct {
	Socket int
	Local  netip.AddrPort
}

// SocketArgs names a socket.
type SocketArgs struct{ Socket int }

// PingArgs asks for an empty message to port 0 of a host and its answer.
type PingArgs struct {
	Socket int
	To     netip.Addr
}

// PingResult is the round trip.
type PingResult struct{ Microseconds int64 }

// SendArgs asks for a stream to be sent. With Try every message is first sent
// without waiting, and what refused it is counted. With Monitor, on top of it,
// the end of congestion is learned from the congestion monitor. A Rate is messages a
// second, 0 as many as the stack takes; what was not taken in time is made up for.
// With Try and PingEvery the sender pings the receiver's host after each PingEvery
// messages and waits for the pong, until the first refusal: the receiver's host then has
// had the time to send its congestion map.
type SendArgs struct {
	Socket    int
	To        netip.AddrPort
	Stream    Stream
	Rate      int
	PingEvery int

	Try, Monitor bool
}

// SendResult counts what was sent, and with SendArgs.Try the refusals.
type SendResult struct {
	Messages  int
	Bytes     int64
	Congested int // ENOBUFS
	Full      int // EAGAIN
	Pings     int // see SendArgs.PingEvery
}

// RecvArgs asks for a stream to be received and verified. Messages of other
// senders are errors. With AnyOrder, which needs Stream.Size, nothing is verified but
// that each number comes once.
type RecvArgs struct {
	Socket   int
	From     netip.AddrPort
	Stream   Stream
	AnyOrder bool
}

// RecvResult counts what was received.
type RecvResult struct {
	Messages int
	Bytes    int64
}

// CallArgs names a command under way.
type CallArgs struct{ Call uint64 }

// ProgressResult is how many messages the command has done and how often it
// was refused. A command that ended is not Running.
type ProgressResult struct {
	Running   bool
	Messages  int64
	Congested int64
}

// Link is a TCP connection that the stack has put under a path, its ends
// unmapped. One that TCP established and RDS turned down never becomes one.
type Link struct{ Local, Remote netip.AddrPort }

// RDSPort is the TCP port of RDS over TCP.
const RDSPort = 16385

// TCPArgs names the port that connections have at one end, 0 is RDSPort, or asks
// for what listens on it.
type TCPArgs struct {
	Port      uint16
	Listeners bool
}

// TCPConn is one TCP connection of this host. Addresses are unmapped.
type TCPConn struct {
	Local, Remote netip.AddrPort
	Established   bool
}

// Test programs that a guest has.
const (
	TestAFRDS       = "/afrds.test"       // tests of internal/afrds
	TestConformance = "/conformance.test" // tests of internal/conformance
)

// ExecArgs asks for a program to be run to its end: its name and arguments, and
// what to add to its environment. Cancelling the command kills it.
type ExecArgs struct {
	Argv []string
	Env  []string
}

// ExecResult is how a program ended. Cut counts the bytes of output beyond what
// is kept.
type ExecResult struct {
	Output string // standard output and error
	Cut    int
	Status int    // exit status, -1 if a signal ended it
	State  string // how the process ended, in words
}

// OutputArgs asks what a program under way printed after the first From bytes,
// and waits for there to be something.
type OutputArgs struct {
	Call uint64
	From int
}

// OutputResult is the next piece of a program's output. A program that ended is
// not Running: its result has all of it.
type OutputResult struct {
	Running bool
	Output  string
}

// InputArgs is text for a program's standard input.
type InputArgs struct {
	Call uint64
	Text string
}

// SysctlArgs sets a file below /proc/sys.
type SysctlArgs struct{ Name, Value string }

// request and response are the lines on the wire.
type request struct {
	ID   uint64
	Op   string
	Args json.RawMessage `json:",omitempty"`
}

type response struct {
	ID     uint64
	Result json.RawMessage `json:",omitempty"`
	Error  *Error          `json:",omitempty"`
}

// Error is what a command failed with at the other end.
type Error struct {
	Text  string
	Errno syscall.Errno `json:",omitempty"`
}

func (e *Error) Error() string { return e.Text }

// Unwrap returns the errno, if the failure had one.
func (e *Error) Unwrap() error {
	if e.Errno == 0 {
		return nil
	}
	return e.Errno
}
