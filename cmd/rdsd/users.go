package main

import (
	"os"

	"github.com/rds-go/rds/internal/control"
	"github.com/rds-go/rds/rds"
)

// usersSettings are the shares of each user.
type usersSettings struct {
	Peers   int    `toml:"peers"`
	Sockets int    `toml:"sockets"`
	Memory  int64  `toml:"memory"`
	Regions int    `toml:"regions"`
	Pinned  int64  `toml:"pinned"`
	Exempt  []word `toml:"exempt"`
}

// shares checks the settings, and is what the service is told.
func (u *usersSettings) shares(c *checks) rds.UserShares {
	c.between("users.peers", u.Peers, 1, maxInt)
	c.between("users.sockets", u.Sockets, 1, maxInt)
	c.bytes("users.memory", u.Memory)
	c.between("users.regions", u.Regions, 0, maxInt)
	c.bytes("users.pinned", u.Pinned)
	s := rds.UserShares{Peers: u.Peers, Sockets: u.Sockets, Memory: u.Memory, Regions: u.Regions, Pinned: u.Pinned}
	for _, w := range u.Exempt {
		s.Exempt = append(s.Exempt, c.account("users.exempt", "user", w, userID))
	}
	return s
}

// reportGroups are the groups whose members may ask at the control socket.
func reportGroups(cfg control.Config) []uint32 {
	mode := cfg.Mode
	group := cfg.Group
	if group == 0 {
		group = os.Getegid()
	}
	if cfg.Listener != nil {
		var ok bool
		if mode, group, ok = fileAccess(cfg.Listener.Addr().String()); !ok {
			return nil
		}
	} else if cfg.Path == "" {
		return nil
	}
	if mode&0o020 == 0 { // connecting needs the right to write
		return nil
	}
	return []uint32{uint32(group)}
}
