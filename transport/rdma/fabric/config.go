package fabric

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc"
)

// DefaultPort is where fabrics listen. It is not that of RDS on XRC (18634), which
// rdsd has on the same addresses.
const DefaultPort = 18635

// Config describes a Fabric. Device and XRC are required, all else has a default.
type Config struct {
	// Device carries the connections. The caller closes it after the Fabric.
	Device *iwarp.Device
	// XRC has the objects. The Fabric gives it the time (Device.Expire); the
	// caller closes it after the Fabric.
	XRC *xrc.Device
	// Addresses are those to listen on. A fabric without any is found by nobody
	// and still connects.
	Addresses []netip.Addr
	// Port is where all hosts of the fabric listen. Default DefaultPort.
	Port uint16
	// Now is the clock that XRC has, too. Default time.Now.
	Now func() time.Time
	// MaxSend is how many work requests a connection between two hosts carries at
	// once, over all channels: 32 to 1<<16, default 1024. Each costs about 200
	// bytes and MaxInline.
	MaxSend int
	// MaxInline bounds WorkRequest.Inline: to 4096 bytes, default 128.
	MaxInline int
	// Reads is the depth of reads and atomics of a connection, in each direction:
	// 1 to 128, default 16.
	Reads int
	// Interval is how often the queue pairs of a peer are asked for, all together
	// by one frame: 1 ms to 1 h, default 10 s. A peer that has not answered an
	// interval later has lost its connection.
	Interval time.Duration
	// Idle is how long a connection, or what is known of a peer, is kept without
	// queue pairs: 1 ms to 24 h, default 1 min.
	Idle time.Duration
	// RedialWait is the wait before a connection is tried again; it doubles up to
	// RedialMax. Defaults 10 ms and 1 s.
	RedialWait, RedialMax time.Duration
	// NoCRC does without iWARP's CRC.
	NoCRC bool
	// Logger hears of connections between hosts. nil: nothing.
	Logger *zap.Logger
}

func (c Config) withDefaults() Config {
	def(&c.Port, DefaultPort)
	def(&c.MaxSend, 1024)
	def(&c.MaxInline, 128)
	def(&c.Reads, 16)
	def(&c.Interval, 10*time.Second)
	def(&c.Idle, time.Minute)
	def(&c.RedialWait, 10*time.Millisecond)
	def(&c.RedialMax, time.Second)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	return c
}

func def[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// Validate returns one error that names every field out of bounds.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, field string, v any) {
		if !ok {
			errs = append(errs, fmt.Errorf("fabric: Config.%s: %v is missing or out of bounds", field, v))
		}
	}
	check(c.Device != nil, "Device", c.Device)
	check(c.XRC != nil, "XRC", c.XRC)
	c = c.withDefaults()
	check(c.MaxSend >= 32 && c.MaxSend <= 1<<16, "MaxSend", c.MaxSend)
	check(c.MaxInline >= 0 && c.MaxInline <= 4096, "MaxInline", c.MaxInline)
	check(c.Reads >= 1 && c.Reads <= 128, "Reads", c.Reads)
	for name, d := range map[string]time.Duration{"Interval": c.Interval, "Idle": c.Idle, "RedialWait": c.RedialWait, "RedialMax": c.RedialMax} {
		check(d >= time.Millisecond && d <= 24*time.Hour, name, d)
	}
	for _, a := range c.Addresses {
		check(a.IsValid() && a == a.Unmap() && !a.IsUnspecified() && a.Zone() == "", "Addresses", a)
	}
	return errors.Join(errs...)
}
