package xrc

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc/objects"
)

// Name is the transport's name.
const Name = "xrc"

// DefaultPort is the TCP port of RDS on XRC.
const DefaultPort = 18634

// How many keys a second are looked up that a peer is not known to have: for each peer,
// and for all of them.
const (
	PeerLookUps = 64
	LookUps     = 1024
)

// Options sets up a Transport. The zero value is ready to use.
type Options struct {
	// Config sets up connections and memory regions. PeerLookUps and LookUps of Memory are
	// PeerLookUps and LookUps if they are 0. CloseTimeout is how long Close(transport.Drain)
	// waits for the peer. Silence ends a link, too, whose peer's program has said nothing for
	// so long when it was asked.
	iwarp.Config
	// Port is the TCP port listened on and dialed. 0 means 18634.
	Port uint16
	// CRC says which links have a CRC of every segment besides TCP's checksum. The zero
	// value is CRCAuto: those between hosts.
	CRC CRC
	// MaxMessage is the longest payload accepted, in bytes, up to 1 GiB; of a longer one of up to
	// 1 MiB the handler gets the header. 0 means 1 MiB.
	MaxMessage int
	// Operations is how many reads, writes and atomics may be under way on a link,
	// 1 to 4096. 0 means 64. Beyond it they wait.
	Operations int
	// Overrun is how many octets of messages, headers included, peers may have under way
	// to this transport, all together: links are transport.Reservers then, with peers that
	// do the same. It is at least the longest message. 0: nothing bounds them here.
	Overrun int
	// Generation is the incarnation of the node, which the peer of each link is told;
	// 0 tells nothing.
	Generation uint32
	// Admit tells whether a peer may be served by this transport. The set-up of one that may
	// not is rejected, so that it tries another transport. It must not block. nil: everybody may.
	Admit func(remote netip.Addr) bool
	// Protection is asked once for each link, by its local address. What it returns finds the
	// protection domain of the program that has a port of RDS at the address, nil if nobody does:
	// what operations of peers that name the port reach. It must not block. If
	// it returns nil it is asked again when an operation comes. Without Protection it is Transport.Domain, whatever the port.
	Protection func(local netip.Addr) func(port uint16) *mr.Domain
	// XRC sets up the objects of package rds/xrc/objects. Now is the clock of everything that is about
	// them; nil means time.Now.
	XRC objects.Config
	// Want is called when channels to a peer, or questions, need a connection, and what it
	// returns when they do not any more: in between RDS is to keep a connection on path 0. nil:
	// channels use what connections there are.
	Want func(local, remote netip.Addr) (release func())
	// Addresses are the local addresses from which a channel to a peer is made that names none:
	// the first one that fits.
	Addresses []netip.Addr
	// MaxSend is how many work requests of channels a connection carries at once: 32 to
	// 1<<15. 0 means 2048.
	MaxSend int
	// MaxInline bounds WorkRequest.Inline of channels: to 4096 bytes. 0 means 128.
	MaxInline int
	// Interval is how often the queue pairs of a peer's channels are asked for, all together by
	// one frame: 1 ms to 1 h. 0 means 10 s. A peer that has not answered an interval later has
	// lost its connection.
	Interval time.Duration
}

// Validate tells what is wrong with o, all of it in one error.
func (o Options) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("xrc: "+format, args...))
		}
	}
	check(o.MaxMessage >= 0 && o.MaxMessage <= 1<<30, "MaxMessage %d is not in 0..1 GiB", o.MaxMessage)
	check(o.CRC.valid(), "CRC %q is not on, off or empty", o.CRC)
	check(o.Overrun >= 0, "Overrun %d is negative", o.Overrun)
	check(o.Operations >= 0 && o.Operations <= 4096, "Operations %d is not in 0..4096", o.Operations)
	check(o.MaxSend == 0 || o.MaxSend >= 32 && o.MaxSend <= 1<<15, "MaxSend %d is not in 32..%d", o.MaxSend, 1<<15)
	check(o.MaxInline >= 0 && o.MaxInline <= 4096, "MaxInline %d is not in 0..4096", o.MaxInline)
	check(o.Interval == 0 || o.Interval >= time.Millisecond && o.Interval <= time.Hour, "Interval %v is not in 1ms..1h", o.Interval)
	return errors.Join(append(errs, o.Config.Validate())...)
}

func (o Options) withDefaults() Options {
	o.Port = cmp.Or(o.Port, DefaultPort)
	o.MaxMessage = cmp.Or(o.MaxMessage, wire.MaxPayload)
	o.Operations = cmp.Or(o.Operations, 64)
	o.Memory.PeerLookUps = cmp.Or(o.Memory.PeerLookUps, PeerLookUps)
	o.Memory.LookUps = cmp.Or(o.Memory.LookUps, LookUps)
	o.CloseTimeout = cmp.Or(o.CloseTimeout, 5*time.Second)
	o.MaxSend = cmp.Or(o.MaxSend, 2048)
	o.MaxInline = cmp.Or(o.MaxInline, 128)
	o.Interval = cmp.Or(o.Interval, 10*time.Second)
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	return o
}
