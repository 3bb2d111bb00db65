package main

import (
	"time"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/xrc"
)

// memorySettings set up the table of memory regions.
type memorySettings struct {
	Regions           int      `toml:"regions"`
	LargeRegions      int      `toml:"large_regions"`
	RegisteredRegions int      `toml:"registered_regions"`
	Pinned            int64    `toml:"pinned"`
	LargePinned       int64    `toml:"large_pinned"`
	Keys              int      `toml:"keys"`
	Quarantine        duration `toml:"quarantine"`
	Linger            duration `toml:"linger"`
	Stuck             duration `toml:"stuck"`
	Wait              duration `toml:"wait"`
	LogInterval       duration `toml:"log_interval"`
	LogPeers          int      `toml:"log_peers"`
	PeerLookUps       int      `toml:"peer_lookups"`
	LookUps           int      `toml:"lookups"`
	Acquaintances     int      `toml:"acquaintances"`
}

func defaultMemory() memorySettings {
	d := mr.Defaults()
	return memorySettings{
		Regions: d.Small.Items, LargeRegions: d.Large.Items, RegisteredRegions: d.Registered.Items,
		Keys: d.Bases, Quarantine: duration{Duration: d.Quarantine}, Linger: duration{Duration: d.Linger}, Stuck: duration{Duration: d.Stuck},
		Wait: duration{Duration: d.MapWait}, LogInterval: duration{Duration: d.LogInterval}, LogPeers: d.Peers,
		PeerLookUps: xrc.PeerLookUps, LookUps: xrc.LookUps, Acquaintances: d.Acquaintances,
	}
}

// Bounds of package mr; its Validate is their home.
const (
	maxRegions  = 1 << 23
	maxKeys     = 1<<24 - 2
	maxLogPeers = 1 << 16
	maxLookUps  = 1 << 20
	maxKnown    = 1 << 28
)

func (m *memorySettings) check(c *checks) {
	c.between("memory.regions", m.Regions, 1, maxRegions)
	c.between("memory.large_regions", m.LargeRegions, 1, maxRegions)
	c.between("memory.registered_regions", m.RegisteredRegions, 1, maxRegions)
	c.bytes("memory.pinned", m.Pinned)
	c.bytes("memory.large_pinned", m.LargePinned)
	c.between("memory.keys", m.Keys, 2, maxKeys)
	c.within("memory.quarantine", m.Quarantine, 0, 24*time.Hour)
	if m.Linger.Duration != 0 || m.Linger.bad != "" {
		c.within("memory.linger", m.Linger, time.Millisecond, time.Hour)
	}
	c.within("memory.stuck", m.Stuck, time.Millisecond, 10*time.Minute)
	c.within("memory.wait", m.Wait, 0, max(0, m.Stuck.Duration))
	c.within("memory.log_interval", m.LogInterval, time.Millisecond, 24*time.Hour)
	c.between("memory.log_peers", m.LogPeers, 1, maxLogPeers)
	c.between("memory.peer_lookups", m.PeerLookUps, 1, maxLookUps)
	c.between("memory.lookups", m.LookUps, 1, maxLookUps)
	c.between("memory.acquaintances", m.Acquaintances, 1, maxKnown)
}

// table is what the table of regions is told, for which a time of 0 means the default.
func (m *memorySettings) table() mr.Config {
	none := func(d duration) time.Duration {
		if d.Duration == 0 {
			return -1
		}
		return d.Duration
	}
	return mr.Config{
		Small:      mr.PoolConfig{Items: m.Regions, Pinned: m.Pinned},
		Large:      mr.PoolConfig{Items: m.LargeRegions, Pinned: m.LargePinned},
		Registered: mr.PoolConfig{Items: m.RegisteredRegions},
		Bases:      m.Keys, Quarantine: none(m.Quarantine), Linger: none(m.Linger), Stuck: m.Stuck.Duration,
		MapWait: none(m.Wait), LogInterval: m.LogInterval.Duration, Peers: m.LogPeers,
		PeerLookUps: m.PeerLookUps, LookUps: m.LookUps, Acquaintances: m.Acquaintances,
	}
}
