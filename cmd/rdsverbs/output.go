package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/rds-go/rds/transport/iwarp"
)

// printer prints what happens, a line each: as JSON, or the text of what has
// one. That it cannot write is nobody's to tell.
type printer struct {
	json bool

	mu sync.Mutex
	w  io.Writer // guarded by mu
}

func (p *printer) print(v any) {
	var line []byte
	if text, ok := v.(fmt.Stringer); ok && !p.json {
		line = []byte(text.String())
	} else {
		line, _ = json.Marshal(v) // records always can be
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = p.w.Write(append(line, '\n'))
}

// listening is the first line of a server.
type listening struct {
	Type    string         `json:"type"` // listening
	Address netip.AddrPort `json:"address"`
}

func (l listening) String() string { return fmt.Sprintf("listening on %v", l.Address) }

// connection is the beginning of one.
type connection struct {
	Type       string         `json:"type"` // connected
	Connection int            `json:"connection,omitzero"`
	Local      netip.AddrPort `json:"local"`
	Remote     netip.AddrPort `json:"remote"`
	Rev        uint8          `json:"rev"`
	CRC        bool           `json:"crc"`
	PeerToPeer bool           `json:"peer_to_peer,omitzero"`
	IRD        int            `json:"ird"`
	ORD        int            `json:"ord"`
}

func connected(id int, e *iwarp.Established) connection {
	return connection{Type: "connected", Connection: id, Local: e.Local, Remote: e.Remote, Rev: e.Rev, CRC: e.CRC,
		PeerToPeer: e.PeerToPeer, IRD: e.IRD, ORD: e.ORD}
}

func (c connection) String() string {
	crc := onOff(c.CRC)
	return fmt.Sprintf("connected %v to %v: MPA revision %d, CRC %v, IRD %d, ORD %d", c.Local, c.Remote, c.Rev, &crc, c.IRD, c.ORD)
}

// pingLine is one ping; its text is that of rping -v.
type pingLine struct {
	Type       string `json:"type"` // ping
	Connection int    `json:"connection,omitzero"`
	Role       string `json:"role"` // client, server
	Number     int    `json:"number"`
	Data       string `json:"data"`
}

func (p pingLine) String() string {
	return strings.TrimPrefix(p.Role+" ", "client ") + "ping data: " + p.Data
}

// pings is the end of a connection of rping.
type pings struct {
	Type       string         `json:"type"` // end
	Connection int            `json:"connection,omitzero"`
	Role       string         `json:"role"`
	Remote     netip.AddrPort `json:"remote"`
	Pings      int            `json:"pings"`
	Size       int            `json:"size"`
	CRC        bool           `json:"crc"`
	Time       float64        `json:"time_ms"`
	Error      string         `json:"error,omitzero"`
}

func pingsEnd(id int, role string, e *iwarp.Established, n, size int, took time.Duration, err error) pings {
	p := pings{Type: "end", Connection: id, Role: role, Remote: e.Remote, Pings: n, Size: size, CRC: e.CRC, Time: float64(took.Microseconds()) / 1000}
	if err != nil {
		p.Error = err.Error()
	}
	return p
}

func (p pings) String() string {
	plural := "s"
	if p.Pings == 1 {
		plural = ""
	}
	s := fmt.Sprintf("%v: %d ping%s of %d bytes in %.1f ms", p.Remote, p.Pings, plural, p.Size, p.Time)
	if p.Error != "" {
		s += ", then " + p.Error
	}
	return s
}

// problem is what went wrong with a connection.
type problem struct {
	Type       string `json:"type"` // error
	Connection int    `json:"connection,omitzero"`
	Error      string `json:"error"`
}

func (p problem) String() string { return fmt.Sprintf("connection %d: %s", p.Connection, p.Error) }
