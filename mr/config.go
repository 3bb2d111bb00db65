package mr

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
)

// The longest regions of the two pools.
const (
	SmallSize = 8 << 10
	LargeSize = 1 << 20
)

// PoolConfig bounds one class of regions. A field of zero takes its default.
type PoolConfig struct {
	// Items is how many regions there may be, those that wait for their
	// invalidation included: 1 to 1<<23. The default is 348,160 small ones,
	// 4,096 large ones (the pools of net/rds/ib_rdma.c), 262,144 registrations.
	Items int
	// Pinned is how many bytes they may hold together. The default is as many
	// as Items regions of the pool's size; registrations have no limit.
	Pinned int64
	// FlushItems and FlushPinned are the watermarks: as many freed regions or
	// bytes of them start an invalidation in the background. The defaults are a
	// fifth of Items, and 64 MiB or a quarter of Pinned if that is less.
	FlushItems  int
	FlushPinned int64
}

// Config describes a Device. The zero value is usable.
type Config struct {
	// Seed makes the keys that are given out predictable, for tests. 0 draws one.
	Seed uint64
	// Small, Large and Registered bound the pool of regions up to SmallSize, that
	// of regions up to LargeSize, and what Register makes.
	Small, Large, Registered PoolConfig
	// Bases is how many bases the table may hold at once, 2 to 1<<24-2, each at
	// 16 bytes. The default is 1<<23. It exceeds the sum of Items because a base
	// whose versions are used up rests for a while: with the defaults there is
	// always one left for up to 17 million mappings a second.
	Bases int
	// Quarantine is how long a base rests at least, and at most twice as long when
	// there is work, after 255 mappings, before a version of its keys comes again:
	// at most 24 h, default 1 min; negative: not at all.
	Quarantine time.Duration
	// Linger is how long a region that was freed lazily may wait for its
	// invalidation when nothing else starts one: 1 ms to 1 h, default 1 s;
	// negative: for ever.
	Linger time.Duration
	// Stuck is how long an invalidation waits for a reader before it gives up:
	// 1 ms to 10 min, default 5 s.
	Stuck time.Duration
	// MapWait is how long Map and Register wait for freed regions when a
	// limit is reached: default 10 ms, at most Stuck; negative: not at all.
	MapWait time.Duration
	// LogInterval is the least time between two log lines about bad keys from
	// one peer, of which each sums up those since the one before: 1 ms to 24 h, default
	// 1 min. The first one comes after a second.
	LogInterval time.Duration
	// Peers is how many peers with bad keys are told apart: 1 to 1<<16, default
	// 1024. Those beyond it are counted together.
	Peers int
	// PeerLookUps and LookUps pace the look-ups of keys that a peer is not known to
	// have, so that keys cannot be guessed: that many a second from each peer, and
	// from all of them, up to 1<<20; as many again may come at once. A request beyond is
	// refused unseen (Fault Unseen). Requests of a peer that has the key are always looked up:
	// the region is for that peer (Options.Peer), or Device.Give said so, or the peer
	// has used the key with success. 0 and less do not pace.
	PeerLookUps, LookUps int
	// Acquaintances is how many pairs of region and peer that has its key the device
	// notes, at 8 bytes, beside one for each region: 1 to 1<<28, default 1<<22. An owner
	// may have as many as it leaves free. Beyond it peers are forgotten, one for each
	// new one: the next look-up of such a peer costs a token.
	Acquaintances int
	// Logger takes stuck readers and bad keys; nil discards them.
	Logger *zap.Logger
}

// Defaults are the values that fields of zero take.
func Defaults() Config {
	c := Config{}.withDefaults()
	c.Logger = nil
	return c
}

func (c Config) withDefaults() Config {
	set := func(p *PoolConfig, items int, size int64) {
		def(&p.Items, items)
		if size > 0 {
			def(&p.Pinned, int64(p.Items)*size)
		} else {
			def(&p.Pinned, 1<<62)
		}
		def(&p.FlushItems, max(p.Items/5, 1))
		def(&p.FlushPinned, min(64<<20, max(p.Pinned/4, 1)))
	}
	set(&c.Small, 348160, SmallSize)
	set(&c.Large, 4096, LargeSize)
	set(&c.Registered, 262144, 0)
	def(&c.Bases, 1<<23)
	def(&c.Quarantine, time.Minute)
	def(&c.Linger, time.Second)
	def(&c.Stuck, 5*time.Second)
	def(&c.MapWait, min(10*time.Millisecond, c.Stuck))
	def(&c.LogInterval, time.Minute)
	def(&c.Peers, 1024)
	def(&c.Acquaintances, 1<<22)
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
	c = c.withDefaults()
	var errs []error
	check := func(ok bool, field string, v any) {
		if !ok {
			errs = append(errs, fmt.Errorf("mr: Config.%s: %v is out of bounds", field, v))
		}
	}
	for _, p := range []struct {
		name string
		*PoolConfig
	}{{"Small", &c.Small}, {"Large", &c.Large}, {"Registered", &c.Registered}} {
		check(p.Items >= 1 && p.Items <= 1<<23, p.name+".Items", p.Items)
		check(p.Pinned >= 1, p.name+".Pinned", p.Pinned)
		check(p.FlushItems >= 1, p.name+".FlushItems", p.FlushItems)
		check(p.FlushPinned >= 1, p.name+".FlushPinned", p.FlushPinned)
	}
	check(c.Bases >= 2 && c.Bases < maxIndex, "Bases", c.Bases)
	check(c.Quarantine <= 24*time.Hour, "Quarantine", c.Quarantine)
	check(c.Linger < 0 || c.Linger >= time.Millisecond && c.Linger <= time.Hour, "Linger", c.Linger)
	check(c.Stuck >= time.Millisecond && c.Stuck <= 10*time.Minute, "Stuck", c.Stuck)
	check(c.MapWait <= c.Stuck, "MapWait", c.MapWait)
	check(c.LogInterval >= time.Millisecond && c.LogInterval <= 24*time.Hour, "LogInterval", c.LogInterval)
	check(c.Peers >= 1 && c.Peers <= 1<<16, "Peers", c.Peers)
	check(c.PeerLookUps <= 1<<20, "PeerLookUps", c.PeerLookUps)
	check(c.LookUps <= 1<<20, "LookUps", c.LookUps)
	check(c.Acquaintances >= 1 && c.Acquaintances <= 1<<28, "Acquaintances", c.Acquaintances)
	return errors.Join(errs...)
}
