//go:build !live

package main

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"os/user"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/rds-go/rds/internal/control"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/rds"
)

// The example file parses, has every key, and each at its default.
func TestExampleIsTheDefaults(t *testing.T) {
	t.Setenv("RDS_CONTROL", "/run/rdsd.sock") // depends on who runs this
	t.Setenv("RDS_SOCKET", "/run/rds/rds.sock")
	var got settings
	must(t, got.load("rdsd.toml"))
	want := defaults()
	want.Listen = []string{}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	text, err := os.ReadFile("rdsd.toml")
	must(t, err)
	var keys map[string]any
	must(t, toml.Unmarshal(text, &keys))
	keys["ports"], keys["services"] = nil, nil // there are none by default; the comments have them
	missing(t, reflect.TypeFor[settings](), keys, "")
}

// The rules for ports that the example has in a comment are valid.
func TestExampleOfPorts(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("rdsd.toml")
	must(t, err)
	_, rest, ok := strings.Cut(string(text), "#   [[ports]]\n")
	if !ok {
		t.Fatal("no rules for ports in the example")
	}
	rule, _, _ := strings.Cut(rest, "\n\n")
	var got settings
	must(t, got.load(write(t, "[[ports]]\n"+strings.ReplaceAll(rule, "#   ", ""))))
	want := []rangeSettings{{Range: "4000-4999", Users: []word{"oracle", "1001"}, Groups: []word{"dba"}}}
	if !reflect.DeepEqual(got.Ports, want) {
		t.Errorf("got %+v, want %+v", got.Ports, want)
	}
}

func missing(t *testing.T, in reflect.Type, keys map[string]any, prefix string) {
	for i := range in.NumField() {
		f := in.Field(i)
		name := f.Tag.Get("toml")
		v, ok := keys[name]
		if !ok {
			t.Errorf("rdsd.toml lacks %s%s", prefix, name)
		}
		if sub, ok := v.(map[string]any); ok && f.Type.Kind() == reflect.Struct {
			missing(t, f.Type, sub, name+".")
		}
	}
}

// A node and a service without settings and those with the defaults spelled
// out are the same: what defaults says is what package rds does.
func TestDefaultsAreValid(t *testing.T) {
	t.Setenv("RDS_CONTROL", "/run/rdsd.sock")
	t.Setenv("RDS_SOCKET", "/run/rds/rds.sock")
	s := defaults()
	s.Listen = []string{"10.0.0.1", "2001:db8::1"}
	got, err := s.plan()
	must(t, err)
	want := plan{
		node: rds.Config{
			Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("2001:db8::1")},
			Port:      16385, Paths: 1, SendBuffer: 4 << 20, ReceiveBuffer: 4 << 20, ReceiveOverrun: 64 << 20, ReceiveStall: time.Minute, PeerBudget: 64 << 20,
			MaxMessage: 1 << 20, Linger: 5 * time.Second, ReconnectMin: 4 * time.Millisecond, ReconnectMax: time.Second,
			Serves: true, State: "/run/rds/rds.state", Grace: 10 * time.Second,
			XRC: rds.XRCConfig{Operations: 64, Patience: 3500 * time.Millisecond},
			Memory: mr.Config{
				Small: mr.PoolConfig{Items: 348160}, Large: mr.PoolConfig{Items: 4096}, Registered: mr.PoolConfig{Items: 262144}, Bases: 1 << 23,
				Quarantine: time.Minute, Linger: time.Second, Stuck: 5 * time.Second, MapWait: 10 * time.Millisecond, LogInterval: time.Minute, Peers: 1024,
				PeerLookUps: 64, LookUps: 1024, Acquaintances: 1 << 22,
			},
			TCP: rds.TCPConfig{Burst: rds.ServiceBurst, KeepAliveIdle: 5 * time.Second, KeepAliveInterval: 5 * time.Second, KeepAliveCount: 5, Silence: 20 * time.Second, DrainTimeout: 5 * time.Second},
		},
		service: rds.ServiceConfig{
			Path: "/run/rds/rds.sock", Mode: 0o666, MaxSessions: 4096, MaxSessionsPerUID: 1024, MaxSockets: 1024,
			SendBudget: 32 << 20, SendArena: 32 << 20, ReceiveArena: 32 << 20, MemoryArena: 32 << 20,
			ReceiveBacklog: 8 << 20,
			Users:          rds.UserShares{Peers: 2048, Sockets: 8192, Exempt: []uint32{0}},
			ReportGroups:   []uint32{uint32(os.Getegid())},
		},
		control: control.Config{Path: "/run/rdsd.sock", Mode: 0o660},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// Bounds that the checks repeat are those of package rds.
func TestBoundsAreThoseOfTheService(t *testing.T) {
	t.Parallel()
	larger := maxArena
	larger *= 2 // negative where int has 32 bits
	for _, c := range []struct {
		what string
		cfg  rds.ServiceConfig
		ok   bool
	}{
		{"most sockets", rds.ServiceConfig{MaxSockets: maxSessionSockets}, true},
		{"more sockets", rds.ServiceConfig{MaxSockets: maxSessionSockets + 1}, false},
		{"smallest arena", rds.ServiceConfig{SendArena: minArena, ReceiveArena: minArena, MemoryArena: minArena}, true},
		{"smaller arena", rds.ServiceConfig{SendArena: minArena / 2}, false},
		{"largest arena", rds.ServiceConfig{SendArena: maxArena, ReceiveArena: maxArena}, true},
		{"larger arena", rds.ServiceConfig{ReceiveArena: larger}, false},
		{"larger memory", rds.ServiceConfig{MemoryArena: larger}, false},
	} {
		c.cfg.Path = "/run/rds/rds.sock"
		if err := c.cfg.Validate(); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

func TestLoadErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{"lisen = []\n[tcp]\nbuffers = 1\n", ":1: lisen: unknown key\n@:3: tcp.buffers: unknown key"},
		{"npaths = \"8\"\n", ":1: npaths: want a whole number, at most " + strconv.Itoa(maxInt)},
		{"[tcp]\nkeepalive_count = true\n", ":2: tcp.keepalive_count: want a whole number, at most " + strconv.Itoa(maxInt)},
		{"users.memory = 'x'\n", ":1: users.memory: want a whole number, at most 9223372036854775807"},
		{"tcp = 1\nping = 1\nlisten = [\n'a',\n1]\nwire = 5", ":1: tcp: want a table\n@:2: ping: want true or false\n@:5: listen: want a list of strings, such as [\"a\", \"b\"]\n@:6: wire: want a string in quotes"},
		{"tcp.silence = [1]\nxrc = { port = true }\nping = 2", ":1: tcp.silence: want a duration such as \"1m30s\"\n@:2: xrc: toml: cannot decode TOML boolean into struct field main.xrcSettings.Port of type int\n@:3: ping: want true or false"},
		{"[[ports]]\nrange = [1]\n[[ports]]\nrange = '4000'\nusers = 5\nwho = 1\n", ":2: ports[0].range: want a string in quotes\n@:5: ports[1].users: want a list of strings, such as [\"a\", \"b\"]\n@:6: ports[1].who: unknown key"},
		{"listen = [\n", ":"},
		{"npaths = 1\nnpaths = 1\n", ":"},
	} {
		file := write(t, c.text)
		s := defaults()
		err := s.load(file)
		if err == nil || !strings.HasPrefix(err.Error(), file) || c.want != ":" && err.Error() != file+strings.ReplaceAll(c.want, "@", file) {
			t.Errorf("%q: error %v, want %q", c.text, err, c.want)
		}
		if partly := fileMistakes(nil); errors.As(err, &partly) == (c.want == ":") {
			t.Errorf("%q: a %T", c.text, err)
		}
	}
	s := defaults()
	if err := s.load("/no/such/file"); !os.IsNotExist(err) {
		t.Errorf("no file: %v", err)
	}
}

// Keys beside a mistake are read, those of tables and of lists of tables too.
func TestLoadReadsAllThatIsRight(t *testing.T) {
	t.Parallel()
	const text = "# comment\nlisten = [ # another\n  '10.0.0.1',\n\n  '10.0.0.2', # more\n]\n" +
		"log.level = 'warn'\n[tcp] # of both\nsilence = '5s'\nkeepalive_count = 7\n[[ports]]\nrange = '4000'\nusers = ['a', 1]\n\n[[ports]]\nrange = 5000\n[xrc]\ncrc = 'on'"
	want := defaults()
	want.Listen, want.Log.Level, want.TCP.Silence.Duration, want.TCP.KeepAliveCount, want.XRC.CRC = []string{"10.0.0.1", "10.0.0.2"}, "warn", 5*time.Second, 7, "on"
	for _, wrong := range []string{"", "lisen = 1\n", "npaths = 'x'\n"} {
		got := defaults()
		err := got.load(write(t, wrong+text))
		if (err == nil) != (wrong == "") {
			t.Errorf("%q: %v", wrong, err)
		}
		if err == nil {
			want.Ports = []rangeSettings{{Range: "4000", Users: []word{"a", "1"}}, {Range: "5000"}}
		} else {
			want.Ports = nil
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q:\ngot  %+v\nwant %+v", wrong, got, want)
		}
	}
}

// One error names every bad setting by its key.
func TestPlanNamesAllThatIsWrong(t *testing.T) {
	t.Parallel()
	s := settings{
		Listen: []string{"0.0.0.0", "10.0.0.256", "224.0.0.1", "255.255.255.255", "10.1.0.1/20", "10.0.0.0/15", "10.1.0.0/33"}, Port: 65536, Wire: "ib", Peers: []string{"10.0.0.7", "a:b=tcp", "10.0.0.7=ib", "10.0.0.7=tcp", "10.0.0.7=xrc"}, Paths: 3, Control: none, SocketMode: "888", ControlMode: "01000", ControlGroup: "no-such-group",
		Metrics: "9385", Pprof: true, Drain: duration{Duration: -1},
		MaxMessage: 8191, SendBuffer: -1, ReceiveBuffer: 0, ReceiveOverrun: 0, PeerBudget: -5, ReconnectMax: duration{Duration: -1},
		TCP: tcpSettings{SendBuffer: -1, ReceiveBuffer: -1, KeepAliveIdle: duration{Duration: -1}, UserTimeout: duration{Duration: -1}, Silence: duration{Duration: -1}, EventLoops: -1},
		XRC: xrcSettings{Port: 65536, CRC: "maybe"},
		Memory: memorySettings{
			LargeRegions: 1<<23 + 1, RegisteredRegions: -1, Pinned: -1, LargePinned: -2, Keys: 1 << 24, Quarantine: duration{Duration: -1}, Linger: duration{Duration: 1},
			Wait: duration{Duration: 1}, LogInterval: duration{Duration: 25 * time.Hour}, LogPeers: 65537, LookUps: -1,
		},
		Sessions: sessionsSettings{Max: 0, MaxPerUser: -1, MaxSockets: 16385, SendBudget: 0, SendArena: 1 << 19, ReceiveArena: 3 << 20, MemoryArena: 1 << 20, Backlog: -1},
		Ports: []rangeSettings{
			{Range: "4000-3999", Users: []word{"0"}},
			{Range: "0"},
			{Range: "1-65536", Users: []word{"no-such-user", "4294967295"}, Groups: []word{"-1"}},
		},
		Handover: handoverSettings{Kernel: "perhaps"},
		Users:    usersSettings{Memory: -1, Regions: -1, Pinned: -1, Exempt: []word{"no-such-user"}},
		Log:      logSettings{Level: "loud", Format: "xml"}, Telemetry: telemetrySettings{Kernel: "require"},
	}
	_, err := s.plan()
	if err == nil {
		t.Fatal("no error")
	}
	lines := strings.Split(err.Error(), "\n")
	for _, want := range []string{
		`listen: "10.1.0.1/20" has bits behind its length: 10.1.0.0/20 is the prefix, 10.1.0.1 the address`, `listen: "10.0.0.0/15" has more than 65536 addresses`,
		`listen: "10.1.0.0/33" is neither a prefix such as "10.1.0.0/20" nor an address or a name`,
		`listen: "0.0.0.0" is not the address of an interface`, `listen: "10.0.0.256": neither an IP address nor a host name`, `listen: "224.0.0.1" is not the address of an interface`, `listen: "255.255.255.255" is not the address of an interface`,
		"port: 65536 is not between 1 and 65535", `wire: "ib" is none of auto, xrc and tcp`,
		`peers: "10.0.0.7" is not a host with =tcp or =xrc`, `peers: "a:b": neither an IP address nor a host name`,
		`peers: "10.0.0.7=ib" is not a host with =tcp or =xrc`, "peers: 10.0.0.7 twice, and not the same",
		"xrc.port: 65536 is not between 0 and 65535", `xrc.crc: "maybe" is none of auto, on and off`, "xrc.operations: 0 is not between 1 and 4096", "xrc.patience: 0s is not a positive duration",
		"npaths: 3 is neither 1 nor 8", "max_message: 8191 is not between 8192 and 1048576",
		"send_buffer: -1 is less than 1", "receive_buffer: 0 is less than 1", "receive_overrun: 0 is less than 1", "peer_budget: -5 is less than 1",
		"tcp.keepalive_count: 0 is less than 1", "tcp.send_buffer: -1 is less than 0", "tcp.receive_buffer: -1 is less than 0", "tcp.event_loops: -1 is less than 0",
		"drain: -1ns is negative", "tcp.user_timeout: -1ns is negative", "tcp.silence: -1ns is negative",
		"reconnect_min: 0s is not a positive duration", "reconnect_max: -1ns is not a positive duration",
		"receive.stall: 0s is not a positive duration", "tcp.keepalive_idle: -1ns is not a positive duration", "tcp.keepalive_interval: 0s is not a positive duration", "tcp.drain_timeout: 0s is not a positive duration",
		`admission.kernel: "" is none of auto, require and off`, `admission.deny: "" is neither silent nor refuse`,
		`admission.pins: "" is not an absolute path, such as /sys/fs/bpf/rds`,
		`handover.kernel: "perhaps" is none of auto, require and off`, "handover.pins: no directory",
		`log.level: "loud" is none of debug, info, warn and error`, `log.format: "xml" is neither console nor json`,
		`telemetry.kernel: "require" is neither "auto" nor "off"`,
		"memory.regions: 0 is not between 1 and 8388608", "memory.large_regions: 8388609 is not between 1 and 8388608", "memory.registered_regions: -1 is not between 1 and 8388608",
		"memory.pinned: -1 is less than 0", "memory.large_pinned: -2 is less than 0", "memory.keys: 16777216 is not between 2 and 16777214", "memory.quarantine: -1ns is not between 0s and 24h0m0s",
		"memory.linger: 1ns is not between 1ms and 1h0m0s", "memory.stuck: 0s is not between 1ms and 10m0s", "memory.wait: 1ns is not between 0s and 0s",
		"memory.log_interval: 25h0m0s is not between 1ms and 24h0m0s", "memory.log_peers: 65537 is not between 1 and 65536",
		"memory.peer_lookups: 0 is not between 1 and 1048576", "memory.lookups: -1 is not between 1 and 1048576", "memory.acquaintances: 0 is not between 1 and 268435456",
		"sessions.max: 0 is less than 1", "sessions.max_per_user: -1 is less than 1", "sessions.max_sockets: 16385 is not between 1 and 16384",
		"sessions.send_budget: 0 is less than 1", "sessions.send_arena: 524288 is not a power of two from 1048576 to 1073741824",
		"sessions.receive_arena: 3145728 is not a power of two from 1048576 to 1073741824", "sessions.receive_backlog: -1 is less than 1",
		`socket_mode: "888" is not a mode such as 0660`, "users.peers: 0 is less than 1", "users.sockets: 0 is less than 1", "users.memory: -1 is less than 0",
		"users.regions: -1 is less than 0", "users.pinned: -1 is less than 0", `users.exempt: no user "no-such-user" on this host`,
		"socket: neither a path nor none",
		`ports[0].range: "4000-3999" is neither a number nor a range such as 4000-4999`,
		`ports[1].range: "0" is neither a number nor a range such as 4000-4999`, "ports[1]: neither users nor groups: nobody could have it",
		`ports[2].range: "1-65536" is neither a number nor a range such as 4000-4999`,
		`ports[2].users: no user "no-such-user" on this host`, `ports[2].users: "4294967295" is not the number of a user`, `ports[2].groups: no group "-1" on this host`,
		`control_mode: "01000" is not a mode such as 0660`, `control_group: no group "no-such-group" on this host`,
		"pprof: needs the control socket, and control is none", `metrics: "9385" is not an address and port such as 127.0.0.1:9385`,
	} {
		if len(lines) == 0 || lines[0] != want {
			t.Errorf("error %q, want %q", lines[:min(1, len(lines))], want)
		}
		lines = lines[min(1, len(lines)):]
	}
	if len(lines) > 0 {
		t.Errorf("more errors: %q", lines)
	}
}

// Durations that are none, numbers among them, are told like everything else.
func TestBadDurations(t *testing.T) {
	t.Parallel()
	s := defaults()
	must(t, s.load(write(t, "listen = ['10.0.0.1']\ndrain = 5\nreconnect_max = 'soon'\nnpaths = 2\n")))
	_, err := s.plan()
	const want = "npaths: 2 is neither 1 nor 8\ndrain: \"5\" is not a duration such as 1m30s\nreconnect_max: \"soon\" is not a duration such as 1m30s"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestFlagsOverrideFile(t *testing.T) {
	t.Parallel()
	file := settings{Listen: []string{"10.0.0.1"}, Port: 1, Wire: "tcp", Peers: []string{"10.0.0.3=tcp"}, Paths: 1, Socket: "x", Control: "a", Metrics: "m", Drain: duration{Duration: 1}, Ping: true, Log: logSettings{"info", "json"}}
	flags := settings{Listen: []string{"10.0.0.2"}, Port: 2, Wire: "auto", Peers: []string{"10.0.0.3=xrc"}, Admission: admissionSettings{Allow: []string{"10.0.0.0/24"}, Kernel: "require", Pins: "/p"}, XRC: xrcSettings{Port: 3, CRC: crcOn}, Paths: 8, Socket: "y", Control: "b", Metrics: "n", Pprof: true, Drain: duration{Duration: 2}, Log: logSettings{"warn", "console"}}
	if got := overlay(file, flags, func(string) bool { return false }); !reflect.DeepEqual(got, file) {
		t.Errorf("no flag given: %+v", got)
	}
	want := flags
	want.Ping = true
	if got := overlay(file, flags, func(string) bool { return true }); !reflect.DeepEqual(got, want) {
		t.Errorf("all flags given: %+v, want %+v", got, want)
	}
	cmd := newCommand(nil)
	for _, name := range []string{"listen", "port", "wire", "peer", "allow", "admission-kernel", "admission-pins", "xrc-port", "xrc-crc", "npaths", "socket", "control", "metrics", "pprof", "drain", "log-level", "log-format"} {
		if cmd.Flags().Lookup(name) == nil {
			t.Errorf("overlay knows --%s, the command does not", name)
		}
	}
}

func TestWires(t *testing.T) {
	t.Parallel()
	p := serving(t, "wire = 'auto'\npeers = ['10.0.0.7=tcp', '2001:db8::1 = xrc']\n[xrc]\nport = 4\ncrc = true\noperations = 5\npatience = '3s'\n")
	want := map[netip.Addr]rds.Wire{netip.MustParseAddr("10.0.0.7"): rds.WireTCP, netip.MustParseAddr("2001:db8::1"): rds.WireXRC}
	if p.node.Wire != rds.WireAuto || !reflect.DeepEqual(p.node.PeerWires, want) || p.node.XRC != (rds.XRCConfig{Port: 4, CRC: rds.CRCOn, Operations: 5, Patience: 3 * time.Second}) {
		t.Errorf("%+v", p.node)
	}
	for text, want := range map[string]rds.CRC{"'auto'": rds.CRCAuto, "'on'": rds.CRCOn, "'off'": rds.CRCOff, "true": rds.CRCOn, "false": rds.CRCOff} {
		if p := serving(t, "[xrc]\ncrc = "+text+"\n"); p.node.XRC.CRC != want {
			t.Errorf("crc = %s is %q", text, p.node.XRC.CRC)
		}
	}
	if p := serving(t, "wire = 'xrc'\n"); p.node.Wire != rds.WireXRC {
		t.Errorf("wire %q", p.node.Wire)
	}
	s := defaults()
	s.Listen, s.Wire, s.Peers = []string{"10.0.0.1"}, "tcp", []string{"10.0.0.7=tcp"}
	if _, err := s.plan(); err == nil || err.Error() != `peers: needs wire = "auto"` {
		t.Errorf("peers and one wire: %v", err)
	}
	s.Wire, s.Peers, s.XRC.Port = "auto", nil, s.Port
	if _, err := s.plan(); err == nil {
		t.Error("one port for two transports")
	}
}

// Shares and limits in bytes may be larger than what an int of 32 bits holds.
func TestBytesBeyond32Bits(t *testing.T) {
	t.Parallel()
	p := serving(t, "[users]\nmemory = 3000000000\npinned = 4000000000\n[memory]\npinned = 7000000000\nlarge_pinned = 2147483648\n")
	if u, m := p.service.Users, p.node.Memory; u.Memory != 3_000_000_000 || u.Pinned != 4_000_000_000 || m.Small.Pinned != 7_000_000_000 || m.Large.Pinned != 1<<31 {
		t.Errorf("%+v, %+v", u, m)
	}
}

// The table of regions is set up as the file says; 0 is what the file says it is.
func TestMemorySettings(t *testing.T) {
	t.Parallel()
	p := serving(t, "[memory]\nregions = 5\nlarge_regions = 6\nregistered_regions = 70\npinned = 8000\nlarge_pinned = 9000\nkeys = 100\nquarantine = '0s'\nlinger = '0s'\nstuck = '2s'\nwait = '0s'\nlog_interval = '3s'\nlog_peers = 4\npeer_lookups = 5\nlookups = 6\nacquaintances = 7\n")
	want := mr.Config{
		Small: mr.PoolConfig{Items: 5, Pinned: 8000}, Large: mr.PoolConfig{Items: 6, Pinned: 9000}, Registered: mr.PoolConfig{Items: 70}, Bases: 100,
		Quarantine: -1, Linger: -1, Stuck: 2 * time.Second, MapWait: -1, LogInterval: 3 * time.Second, Peers: 4,
		PeerLookUps: 5, LookUps: 6, Acquaintances: 7,
	}
	if !reflect.DeepEqual(p.node.Memory, want) {
		t.Errorf("got %+v, want %+v", p.node.Memory, want)
	}
}

// Numbers may be written as numbers or as strings, names as names.
func TestPortRules(t *testing.T) {
	t.Parallel()
	me, err := user.Current()
	must(t, err)
	p := serving(t, `
[[ports]]
range = "4000-4999"
users = [1001, "1002"]
groups = ["1003", 4]
[[ports]]
range = 4000
users = ["`+me.Username+`"]
[[ports]]
range = "1 - 65535"
groups = [0]
`)
	uid, err := userID(me.Username)
	if err != nil || uid != me.Uid {
		t.Fatalf("%s is %s, %v; want %s", me.Username, uid, err, me.Uid)
	}
	var c checks
	want := []rds.PortRule{
		{First: 4000, Last: 4999, UIDs: []uint32{1001, 1002}, GIDs: []uint32{1003, 4}},
		{First: 4000, Last: 4000, UIDs: []uint32{c.account("", "user", word(me.Uid), userID)}},
		{First: 1, Last: 65535, GIDs: []uint32{0}},
	}
	if !reflect.DeepEqual(p.service.Ports, want) {
		t.Errorf("got %+v, want %+v", p.service.Ports, want)
	}
}

func TestModes(t *testing.T) {
	t.Parallel()
	p := serving(t, "socket_mode = \"0o600\"\ncontrol_mode = 644\ncontrol_group = 1234\n")
	if p.service.Mode != fs.FileMode(0o600) || p.control.Mode != fs.FileMode(0o644) || p.control.Group != 1234 {
		t.Errorf("modes %v and %v, group %d", p.service.Mode, p.control.Mode, p.control.Group)
	}
}

func TestNoSockets(t *testing.T) {
	t.Parallel()
	p := serving(t, "socket = \"none\"\ncontrol = \"none\"\n")
	if p.service.Path != "" || p.control.Path != "" {
		t.Errorf("paths %q and %q", p.service.Path, p.control.Path)
	}
}

// Profiles are there when asked for, and only then.
func TestProfiles(t *testing.T) {
	t.Parallel()
	if p := serving(t, ""); p.control.Extra != nil {
		t.Error("profiles although nobody asked")
	}
	if p := serving(t, "pprof = true\n"); p.control.Extra[profilePath] == nil {
		t.Error("no profiles")
	}
}

// The configuration in docs/SECURITY.md is one: rdsd listens on the tunnel's address and has
// connections with the tunnel's network alone.
func TestExampleOfSecurity(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/SECURITY.md")
	must(t, err)
	_, rest, _ := strings.Cut(string(page), "```toml\n")
	text, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("no configuration in docs/SECURITY.md")
	}
	s := defaults()
	must(t, s.load(write(t, text)))
	p, err := s.plan()
	must(t, err)
	if !slices.Equal(p.node.Addresses, []netip.Addr{netip.MustParseAddr("10.77.0.1")}) || !slices.Equal(p.node.Admission.Allow, []netip.Prefix{netip.MustParsePrefix("10.77.0.0/24")}) {
		t.Errorf("%v, %v", p.node.Addresses, p.node.Admission)
	}
}
