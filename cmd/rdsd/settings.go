package main

import (
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/rds-go/rds/ebpf"
	"github.com/rds-go/rds/internal/control"
	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/rds"
)

// none is the value of control and of socket that means no such socket.
const none = "none"

// settings is the configuration file. The keys are the TOML names; the order
// is that of rdsd.toml.
type settings struct {
	Listen         []string          `toml:"listen"`
	Port           int               `toml:"port"`
	Wire           string            `toml:"wire"`
	Peers          []string          `toml:"peers"`
	Paths          int               `toml:"npaths"`
	Socket         string            `toml:"socket"`
	SocketMode     word              `toml:"socket_mode"`
	Control        string            `toml:"control"`
	ControlMode    word              `toml:"control_mode"`
	ControlGroup   word              `toml:"control_group"`
	Metrics        string            `toml:"metrics"`
	Pprof          bool              `toml:"pprof"`
	State          string            `toml:"state"`
	Grace          duration          `toml:"grace"`
	Drain          duration          `toml:"drain"`
	Ping           bool              `toml:"ping"`
	MaxMessage     int               `toml:"max_message"`
	SendBuffer     int               `toml:"send_buffer"`
	ReceiveBuffer  int               `toml:"receive_buffer"`
	ReceiveOverrun int               `toml:"receive_overrun"`
	PeerBudget     int               `toml:"peer_budget"`
	ReconnectMin   duration          `toml:"reconnect_min"`
	ReconnectMax   duration          `toml:"reconnect_max"`
	Admission      admissionSettings `toml:"admission"`
	Handover       handoverSettings  `toml:"handover"`
	Receive        receiveSettings   `toml:"receive"`
	TCP            tcpSettings       `toml:"tcp"`
	XRC            xrcSettings       `toml:"xrc"`
	Memory         memorySettings    `toml:"memory"`
	Sessions       sessionsSettings  `toml:"sessions"`
	Users          usersSettings     `toml:"users"`
	Ports          []rangeSettings   `toml:"ports"`
	Services       []rangeSettings   `toml:"services"`
	Telemetry      telemetrySettings `toml:"telemetry"`
	Log            logSettings       `toml:"log"`
}

// sessionsSettings bound what attached applications may take.
type sessionsSettings struct {
	Max          int `toml:"max"`
	MaxPerUser   int `toml:"max_per_user"`
	MaxSockets   int `toml:"max_sockets"`
	SendBudget   int `toml:"send_budget"`
	SendArena    int `toml:"send_arena"`
	ReceiveArena int `toml:"receive_arena"`
	MemoryArena  int `toml:"memory_arena"`
	Backlog      int `toml:"receive_backlog"`
}

// rangeSettings reserve ports, or service ids, for some users and groups.
type rangeSettings struct {
	Range  word   `toml:"range"`
	Users  []word `toml:"users"`
	Groups []word `toml:"groups"`
}

type receiveSettings struct {
	Stall duration `toml:"stall"`
}

type xrcSettings struct {
	Port       int      `toml:"port"`
	CRC        word     `toml:"crc"`
	Operations int      `toml:"operations"`
	Patience   duration `toml:"patience"`
}

type tcpSettings struct {
	SendBuffer        int      `toml:"send_buffer"`
	ReceiveBuffer     int      `toml:"receive_buffer"`
	KeepAliveIdle     duration `toml:"keepalive_idle"`
	KeepAliveInterval duration `toml:"keepalive_interval"`
	KeepAliveCount    int      `toml:"keepalive_count"`
	UserTimeout       duration `toml:"user_timeout"`
	Silence           duration `toml:"silence"`
	DrainTimeout      duration `toml:"drain_timeout"`
	Congestion        string   `toml:"congestion"`
	EventLoops        int      `toml:"event_loops"`
}

func defaults() settings {
	return settings{
		Port: rds.DefaultPort, Wire: wireAuto, Peers: []string{}, Paths: 1,
		Socket: orNone(ipc.ServePath()), SocketMode: octal(rds.DefaultSocketMode),
		Control: orNone(control.ServePath()), ControlMode: octal(control.DefaultMode),
		Grace: duration{Duration: rds.DefaultGrace}, Drain: duration{Duration: rds.DefaultLinger}, Ping: true,
		MaxMessage: rds.MaxMessage, SendBuffer: rds.DefaultBuffer, ReceiveBuffer: rds.DefaultBuffer,
		ReceiveOverrun: rds.DefaultReceiveOverrun, PeerBudget: rds.DefaultPeerBudget,
		ReconnectMin: duration{Duration: 4 * time.Millisecond}, ReconnectMax: duration{Duration: time.Second},
		Admission: defaultAdmission(),
		Handover:  handoverSettings{Kernel: kernelAuto, Pins: ebpf.DefaultDir + "/handover"},
		Receive:   receiveSettings{Stall: duration{Duration: rds.DefaultReceiveStall}},
		TCP: tcpSettings{
			KeepAliveIdle: duration{Duration: 5 * time.Second}, KeepAliveInterval: duration{Duration: 5 * time.Second}, KeepAliveCount: 5,
			Silence: duration{Duration: 20 * time.Second}, DrainTimeout: duration{Duration: 5 * time.Second},
		},
		XRC:    xrcSettings{CRC: crcAuto, Operations: 64, Patience: duration{Duration: 3500 * time.Millisecond}},
		Memory: defaultMemory(),
		Sessions: sessionsSettings{
			Max: rds.DefaultMaxSessions, MaxPerUser: rds.DefaultSessionsOfUID, MaxSockets: rds.DefaultMaxSockets,
			SendBudget: rds.DefaultSendBudget, SendArena: rds.DefaultSendArena, ReceiveArena: rds.DefaultReceiveArena, MemoryArena: rds.DefaultMemoryArena,
			Backlog: rds.DefaultReceiveBacklog,
		},
		Users: usersSettings{
			Peers: rds.DefaultUserPeers, Sockets: rds.DefaultUserSockets, Exempt: []word{"0"},
		},
		Telemetry: defaultTelemetry(),
		Log:       logSettings{Level: "info", Format: "console"},
	}
}

func orNone(path string) string {
	if path == "" {
		return none
	}
	return path
}

// statePath is the state file: what the setting says, or beside the socket that
// applications attach to.
func (s *settings) statePath(socket string) string {
	switch {
	case s.State == none, s.State == "" && (socket == none || socket == ""):
		return ""
	case s.State != "":
		return s.State
	}
	return strings.TrimSuffix(socket, ".sock") + ".state"
}

func octal(mode fs.FileMode) word { return word(fmt.Sprintf("%04o", mode)) }
