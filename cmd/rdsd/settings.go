package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/rds-go/rds/internal/control"
	"github.com/rds-go/rds/rds"
)

// noControl is the value of control that means no socket.
const noControl = "none"

// settings is the configuration file. The keys are the TOML names; the order
// is that of rdsd.toml.
type settings struct {
	Listen         []string    `toml:"listen"`
	Port           int         `toml:"port"`
	Paths          int         `toml:"npaths"`
	Control        string      `toml:"control"`
	Drain          duration    `toml:"drain"`
	Ping           bool        `toml:"ping"`
	MaxMessage     int         `toml:"max_message"`
	SendBuffer     int         `toml:"send_buffer"`
	ReceiveBuffer  int         `toml:"receive_buffer"`
	ReceiveOverrun int         `toml:"receive_overrun"`
	PeerBudget     int         `toml:"peer_budget"`
	ReconnectMin   duration    `toml:"reconnect_min"`
	ReconnectMax   duration    `toml:"reconnect_max"`
	TCP            tcpSettings `toml:"tcp"`
	Log            logSettings `toml:"log"`
}

type tcpSettings struct {
	SendBuffer        int      `toml:"send_buffer"`
	ReceiveBuffer     int      `toml:"receive_buffer"`
	KeepAliveIdle     duration `toml:"keepalive_idle"`
	KeepAliveInterval duration `toml:"keepalive_interval"`
	KeepAliveCount    int      `toml:"keepalive_count"`
	UserTimeout       duration `toml:"user_timeout"`
	DrainTimeout      duration `toml:"drain_timeout"`
	Congestion        string   `toml:"congestion"`
	EventLoops        int      `toml:"event_loops"`
}

// duration is a time.Duration written as time.ParseDuration reads it. From a
// file anything is taken, so that checks can name all that are wrong.
type duration struct {
	time.Duration
	bad string // what the file has instead
}

// UnmarshalText is for the file, Set and Type are for the flag.
func (d *duration) UnmarshalText(b []byte) error {
	*d = duration{}
	if err := d.Set(string(b)); err != nil {
		d.bad = string(b)
	}
	return nil
}

func (d *duration) Set(s string) (err error) {
	d.Duration, err = time.ParseDuration(s)
	return err
}

func (d *duration) Type() string { return "duration" }

func defaults() settings {
	control := control.ServePath()
	if control == "" {
		control = noControl
	}
	return settings{
		Port: rds.DefaultPort, Paths: 1, Control: control, Drain: duration{Duration: rds.DefaultLinger}, Ping: true,
		MaxMessage: rds.MaxMessage, SendBuffer: rds.DefaultBuffer, ReceiveBuffer: rds.DefaultBuffer,
		ReceiveOverrun: rds.DefaultReceiveOverrun, PeerBudget: rds.DefaultPeerBudget,
		ReconnectMin: duration{Duration: 4 * time.Millisecond}, ReconnectMax: duration{Duration: time.Second},
		TCP: tcpSettings{
			KeepAliveIdle: duration{Duration: 5 * time.Second}, KeepAliveInterval: duration{Duration: 5 * time.Second}, KeepAliveCount: 5,
			DrainTimeout: duration{Duration: 5 * time.Second},
		},
		Log: logSettings{Level: "info", Format: "console"},
	}
}

// load reads a file over s. Its error names every key that is unknown.
func (s *settings) load(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	dec := toml.NewDecoder(f)
	dec.DisallowUnknownFields()
	err = dec.Decode(s)
	var unknown *toml.StrictMissingError
	var bad *toml.DecodeError
	switch {
	case errors.As(err, &unknown):
		var keys []string
		for _, e := range unknown.Errors {
			row, _ := e.Position()
			keys = append(keys, fmt.Sprintf("%s (line %d)", strings.Join(e.Key(), "."), row))
		}
		return fmt.Errorf("%s: unknown: %s", file, strings.Join(keys, ", "))
	case errors.As(err, &bad):
		row, col := bad.Position()
		return fmt.Errorf("%s:%d:%d: %s: %w", file, row, col, strings.Join(bad.Key(), "."), bad)
	case err != nil:
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// node checks the settings and turns them into a node's. The error names all
// that are wrong.
func (s *settings) node() (rds.Config, error) {
	var c checks
	if len(s.Listen) == 0 {
		c.add("listen", "no address: give --listen IP[,IP...], or listen in the configuration file")
	}
	var addrs []netip.Addr
	for _, l := range s.Listen {
		a, err := netip.ParseAddr(strings.TrimSpace(l))
		if err != nil || a.IsUnspecified() || a.IsMulticast() {
			c.add("listen", "%q is not the address of an interface", l)
		}
		addrs = append(addrs, a)
	}
	c.between("port", s.Port, 1, 65535)
	if s.Paths != 1 && s.Paths != 8 {
		c.add("npaths", "%d is neither 1 nor 8", s.Paths)
	}
	c.between("max_message", s.MaxMessage, 8192, rds.MaxMessage)
	for _, f := range []struct {
		key string
		v   int
	}{
		{"send_buffer", s.SendBuffer}, {"receive_buffer", s.ReceiveBuffer},
		{"receive_overrun", s.ReceiveOverrun}, {"peer_budget", s.PeerBudget}, {"tcp.keepalive_count", s.TCP.KeepAliveCount},
	} {
		c.between(f.key, f.v, 1, maxInt)
	}
	for _, f := range []struct {
		key string
		v   int
	}{{"tcp.send_buffer", s.TCP.SendBuffer}, {"tcp.receive_buffer", s.TCP.ReceiveBuffer}, {"tcp.event_loops", s.TCP.EventLoops}} {
		c.between(f.key, f.v, 0, maxInt)
	}
	c.notNegative("drain", s.Drain)
	c.notNegative("tcp.user_timeout", s.TCP.UserTimeout)
	c.positive("reconnect_min", s.ReconnectMin)
	c.positive("reconnect_max", s.ReconnectMax)
	c.positive("tcp.keepalive_idle", s.TCP.KeepAliveIdle)
	c.positive("tcp.keepalive_interval", s.TCP.KeepAliveInterval)
	c.positive("tcp.drain_timeout", s.TCP.DrainTimeout)
	s.Log.check(&c)
	if err := c.err(); err != nil {
		return rds.Config{}, err
	}
	cfg := s.config(addrs)
	return cfg, cfg.Validate()
}

// config writes the settings as a node reads them, where 0 means the default.
func (s *settings) config(addrs []netip.Addr) rds.Config {
	cfg := rds.Config{
		Addresses: addrs, Port: uint16(s.Port), Paths: s.Paths,
		SendBuffer: s.SendBuffer, ReceiveBuffer: s.ReceiveBuffer, ReceiveOverrun: s.ReceiveOverrun,
		PeerBudget: s.PeerBudget, MaxMessage: s.MaxMessage,
		Linger: s.Drain.Duration, ReconnectMin: s.ReconnectMin.Duration, ReconnectMax: s.ReconnectMax.Duration,
		DisablePing: !s.Ping,
		TCP: rds.TCPConfig{
			SendBuffer: s.TCP.SendBuffer, ReceiveBuffer: s.TCP.ReceiveBuffer,
			KeepAliveIdle: s.TCP.KeepAliveIdle.Duration, KeepAliveInterval: s.TCP.KeepAliveInterval.Duration,
			KeepAliveCount: s.TCP.KeepAliveCount, UserTimeout: s.TCP.UserTimeout.Duration, Congestion: s.TCP.Congestion,
			EventLoops: s.TCP.EventLoops, DrainTimeout: s.TCP.DrainTimeout.Duration,
		},
	}
	if s.Drain.Duration == 0 {
		cfg.Linger = -1
	}
	if s.Control != noControl {
		cfg.Control = s.Control
	}
	return cfg
}
