package main

import (
	"io/fs"
	"math"
	"net"
	"os/user"
	"strconv"
	"strings"

	"github.com/rds-go/rds/internal/control"
	"github.com/rds-go/rds/rds"
)

// Bounds of package rds on a session; its Validate is their home.
const (
	maxSessionSockets  = 16384
	minArena, maxArena = 1 << 20, 1 << 30
)

func (l *sessionsSettings) check(c *checks) {
	c.between("sessions.max", l.Max, 1, maxInt)
	c.between("sessions.max_per_user", l.MaxPerUser, 1, maxInt)
	c.between("sessions.max_sockets", l.MaxSockets, 1, maxSessionSockets)
	c.between("sessions.send_budget", l.SendBudget, 1, maxInt)
	c.arena("sessions.send_arena", l.SendArena)
	c.arena("sessions.receive_arena", l.ReceiveArena)
	c.arena("sessions.memory_arena", l.MemoryArena)
	c.between("sessions.receive_backlog", l.Backlog, 1, maxInt)
}

// service is what the service is told, or may be told later.
func (s *settings) service(c *checks) rds.ServiceConfig {
	cfg := rds.ServiceConfig{
		Mode:        c.mode("socket_mode", s.SocketMode),
		MaxSessions: s.Sessions.Max, MaxSessionsPerUID: s.Sessions.MaxPerUser, MaxSockets: s.Sessions.MaxSockets,
		SendBudget: s.Sessions.SendBudget, SendArena: s.Sessions.SendArena, ReceiveArena: s.Sessions.ReceiveArena, MemoryArena: s.Sessions.MemoryArena,
		ReceiveBacklog: s.Sessions.Backlog,
	}
	cfg.Users = s.Users.shares(c)
	c.path("socket", s.Socket)
	if s.Socket != none {
		cfg.Path = s.Socket
	}
	for i := range s.Ports {
		first, last, uids, gids := s.Ports[i].rule(c, "ports["+strconv.Itoa(i)+"]", 16, "4000-4999")
		cfg.Ports = append(cfg.Ports, rds.PortRule{First: uint16(first), Last: uint16(last), UIDs: uids, GIDs: gids})
	}
	for i := range s.Services {
		first, last, uids, gids := s.Services[i].rule(c, "services["+strconv.Itoa(i)+"]", 64, "0x1000-0x1fff")
		cfg.Services = append(cfg.Services, rds.ServiceRule{First: first, Last: last, UIDs: uids, GIDs: gids})
	}
	return cfg
}

// controls is what the control socket is told.
func (s *settings) controls(c *checks) control.Config {
	cfg := control.Config{Mode: c.mode("control_mode", s.ControlMode)}
	c.path("control", s.Control)
	if s.Control != none {
		cfg.Path = s.Control
	}
	if s.ControlGroup != "" {
		cfg.Group = int(c.account("control_group", "group", s.ControlGroup, groupID))
	}
	if s.Pprof {
		if s.Control == none {
			c.add("pprof", "needs the control socket, and control is none")
		}
		cfg.Extra = profiles()
	}
	return cfg
}

func (s *settings) checkMetrics(c *checks) {
	if s.Metrics == "" {
		return
	}
	_, port, err := net.SplitHostPort(s.Metrics)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		c.add("metrics", "%q is not an address and port such as 127.0.0.1:9385", s.Metrics)
	}
}

// rule is what a table reserves, of names with so many bits; example is a range of them.
func (p *rangeSettings) rule(c *checks, key string, bits int, example string) (low, high uint64, uids, gids []uint32) {
	first, last, dash := strings.Cut(string(p.Range), "-")
	if !dash {
		last = first
	}
	number := func(text string) (uint64, error) {
		text = strings.TrimSpace(text)
		if hex, ok := strings.CutPrefix(text, "0x"); ok {
			return strconv.ParseUint(hex, 16, bits)
		}
		return strconv.ParseUint(text, 10, bits)
	}
	low, err := number(first)
	high, err2 := number(last)
	if err != nil || err2 != nil || low == 0 || low > high {
		c.add(key+".range", "%q is neither a number nor a range such as %s", p.Range, example)
	}
	for _, u := range p.Users {
		uids = append(uids, c.account(key+".users", "user", u, userID))
	}
	for _, g := range p.Groups {
		gids = append(gids, c.account(key+".groups", "group", g, groupID))
	}
	if len(p.Users) == 0 && len(p.Groups) == 0 {
		c.add(key, "neither users nor groups: nobody could have it")
	}
	return low, high, uids, gids
}

func userID(name string) (string, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return "", err
	}
	return u.Uid, nil
}

func groupID(name string) (string, error) {
	g, err := user.LookupGroup(name)
	if err != nil {
		return "", err
	}
	return g.Gid, nil
}

// account is the number of a user or group, given by number or by name.
func (c *checks) account(key, kind string, w word, lookup func(name string) (string, error)) uint32 {
	text := string(w)
	if _, err := strconv.ParseUint(text, 10, 64); err != nil {
		if text, err = lookup(text); err != nil {
			c.add(key, "no %s %q on this host", kind, string(w))
			return 0
		}
	}
	id, err := strconv.ParseUint(text, 10, 32)
	if err != nil || id == math.MaxUint32 { // MaxUint32 stands for "none" in the system's calls.
		c.add(key, "%q is not the number of a %s", text, kind)
		return 0
	}
	return uint32(id)
}

// mode reads the permissions of a file, as chmod does.
func (c *checks) mode(key string, w word) fs.FileMode {
	m, err := strconv.ParseUint(strings.TrimPrefix(string(w), "0o"), 8, 32)
	if err != nil || m == 0 || m > 0o777 {
		c.add(key, "%q is not a mode such as 0660", string(w))
		return 0
	}
	return fs.FileMode(m)
}

// path takes none and names of files.
func (c *checks) path(key, path string) {
	if path == "" {
		c.add(key, "neither a path nor %s", none)
	}
}

func (c *checks) arena(key string, v int) {
	if v < minArena || v > maxArena || v&(v-1) != 0 {
		c.add(key, "%d is not a power of two from %d to %d", v, minArena, maxArena)
	}
}
