package objects

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/transport/iwarp"
)

// Limits bound what one session may hold. A field of zero takes its default.
// Reaching one is ErrLimit, and nothing is left of what was being made.
type Limits struct {
	Domains       int // open handles of domains. Default 64
	Initiators    int // initiator queue pairs. Default 4096
	Targets       int // target queue pairs it created that still exist, for one host no more than it leaves free. Default 4096
	Registrations int // registrations with targets, by number and by service. Default 16384
	SRQs          int // shared receive queues. Default 256
	Receives      int // room of all its shared receive queues, in receive requests. Default 1<<18
	CQs           int // completion queues. Default 256
	PDs           int // protection domains. Default 256
	Services      int // service ids. Default 64
	Events        int // events queued or not acknowledged; 2 at least. Default 256
}

// Config describes a Device. Now and Base are required, all else has a default.
type Config struct {
	// Base is the protection domain of the queue pairs that messages come by: what sessions
	// make is of its device, and their protection domains are inside of it.
	Base *iwarp.PD
	// Now is the clock. It is asked in control calls only.
	Now func() time.Time
	// Seed makes the incarnation, and generations predictable, for
	// tests. 0 draws one.
	Seed uint64
	// Incarnation tells peers one life of the daemon from the next; 0 draws one.
	Incarnation uint64
	// Sessions is how many there may be at once: 1 to 1<<20, default 4096.
	Sessions int
	// Limits are those of a session that names none of its own, and Shares those of all sessions of a
	// user.
	Limits Limits
	Shares Shares
	// Grace is how long a queue pair that lost its connection waits to be
	// resumed: 1 ms to 1 h, default 30 s, which is twice as long as a
	// connection is tried again.
	Grace time.Duration
	// Reap is how long a target may stay in StateError before only its number
	// is kept: 1 ms to 24 h, default 60 s.
	Reap time.Duration
	// Rest is how long a number is not given out again, unless RestCount other
	// numbers of its kind were given out in the meantime. The defaults are the
	// larger of 60 s and twice Grace, and 1<<16.
	Rest      time.Duration
	RestCount int
	// Restarts is how often in a row an initiator may begin anew to set up its
	// connection: 1 to 1000, default 8. RestartWait is how long it waits before
	// the first time, at most: 1 ms to 1 min, default 10 ms.
	Restarts    int
	RestartWait time.Duration
	// MTU is the largest path MTU in octets: 256 to 65535, default 65535.
	MTU int
	// RdAtomic is the largest depth of reads and atomics: 1 to 255, default 128.
	RdAtomic int
	// MaxWR bounds the receives of a shared receive queue. Default 1<<16.
	MaxWR int
	// QueueGone hears, with no lock held, of each shared receive queue without a sink that is
	// no more; nil: nobody does.
	QueueGone func(number uint32)
	// Logger takes state changes of shared objects and leaks; nil discards them.
	Logger *zap.Logger
}

func (l Limits) withDefaults(d Limits) Limits {
	l.Domains = cmp.Or(l.Domains, d.Domains)
	l.Initiators = cmp.Or(l.Initiators, d.Initiators)
	l.Targets = cmp.Or(l.Targets, d.Targets)
	l.Registrations = cmp.Or(l.Registrations, d.Registrations)
	l.SRQs = cmp.Or(l.SRQs, d.SRQs)
	l.Receives = cmp.Or(l.Receives, d.Receives)
	l.CQs = cmp.Or(l.CQs, d.CQs)
	l.PDs = cmp.Or(l.PDs, d.PDs)
	l.Services = cmp.Or(l.Services, d.Services)
	l.Events = cmp.Or(l.Events, d.Events)
	return l
}

var defaultLimits = Limits{Domains: 64, Initiators: 4096, Targets: 4096, Registrations: 16384,
	SRQs: 256, Receives: 1 << 18, CQs: 256, PDs: 256, Services: 64, Events: 256}

func (c Config) withDefaults() Config {
	c.Sessions = cmp.Or(c.Sessions, 4096)
	c.Limits = c.Limits.withDefaults(defaultLimits)
	c.Grace = cmp.Or(c.Grace, 30*time.Second)
	c.Reap = cmp.Or(c.Reap, time.Minute)
	c.Rest = cmp.Or(c.Rest, max(time.Minute, 2*c.Grace))
	c.RestCount = cmp.Or(c.RestCount, 1<<16)
	c.Restarts = cmp.Or(c.Restarts, 8)
	c.RestartWait = cmp.Or(c.RestartWait, 10*time.Millisecond)
	c.MTU = cmp.Or(c.MTU, 65535)
	c.RdAtomic = cmp.Or(c.RdAtomic, 128)
	c.MaxWR = cmp.Or(c.MaxWR, 1<<16)
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	return c
}

// Validate returns one error that names every field out of bounds.
func (c Config) Validate() error {
	var errs []error
	if c.Now == nil {
		errs = append(errs, errors.New("xrc: Config.Now: there is no clock"))
	}
	if c.Base == nil {
		errs = append(errs, errors.New("xrc: Config.Base: there is no protection domain"))
	}
	c = c.withDefaults()
	check := func(ok bool, field string, v any) {
		if !ok {
			errs = append(errs, fmt.Errorf("xrc: Config.%s: %v is out of bounds", field, v))
		}
	}
	check(c.Sessions >= 1 && c.Sessions <= 1<<20, "Sessions", c.Sessions)
	errs = append(errs, c.Limits.validate()...)
	check(c.Grace >= time.Millisecond && c.Grace <= time.Hour, "Grace", c.Grace)
	check(c.Reap >= time.Millisecond && c.Reap <= 24*time.Hour, "Reap", c.Reap)
	check(c.Rest >= 0 && c.Rest <= 24*time.Hour, "Rest", c.Rest)
	check(c.RestCount >= 1 && c.RestCount <= 1<<20, "RestCount", c.RestCount)
	check(c.Restarts >= 1 && c.Restarts <= 1000, "Restarts", c.Restarts)
	check(c.RestartWait >= time.Millisecond && c.RestartWait <= time.Minute, "RestartWait", c.RestartWait)
	check(c.MTU >= 256 && c.MTU <= 65535, "MTU", c.MTU)
	check(c.RdAtomic >= 1 && c.RdAtomic <= 255, "RdAtomic", c.RdAtomic)
	check(c.MaxWR >= 1 && c.MaxWR <= 1<<20, "MaxWR", c.MaxWR)
	return errors.Join(errs...)
}

func (l Limits) validate() (errs []error) {
	for _, f := range []struct {
		name   string
		n, min int
	}{{"Domains", l.Domains, 1}, {"Initiators", l.Initiators, 1}, {"Targets", l.Targets, 1},
		{"Registrations", l.Registrations, 1}, {"SRQs", l.SRQs, 1}, {"Receives", l.Receives, 1},
		{"CQs", l.CQs, 1}, {"PDs", l.PDs, 1}, {"Services", l.Services, 1}, {"Events", l.Events, 2}} {
		if f.n < f.min || f.n > 1<<24 {
			errs = append(errs, fmt.Errorf("xrc: Limits.%s: %d is out of bounds", f.name, f.n))
		}
	}
	return errs
}
