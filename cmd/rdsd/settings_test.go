package main

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/rds-go/rds/rds"
)

// The example file parses, has every key, and each at its default.
func TestExampleIsTheDefaults(t *testing.T) {
	t.Setenv("RDS_CONTROL", "/run/rdsd.sock") // depends on who runs this
	var got settings
	if err := got.load("rdsd.toml"); err != nil {
		t.Fatal(err)
	}
	want := defaults()
	want.Listen = []string{}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	text, err := os.ReadFile("rdsd.toml")
	if err != nil {
		t.Fatal(err)
	}
	var keys map[string]any
	if err := toml.Unmarshal(text, &keys); err != nil {
		t.Fatal(err)
	}
	missing(t, reflect.TypeFor[settings](), keys, "")
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

// A node without settings and one with the defaults spelled out are the same:
// what defaults says is what package rds does.
func TestDefaultsAreValid(t *testing.T) {
	s := defaults()
	s.Listen = []string{"10.0.0.1", "2001:db8::1"}
	s.Control = noControl
	cfg, err := s.node()
	if err != nil {
		t.Fatal(err)
	}
	want := rds.Config{
		Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("2001:db8::1")},
		Port:      16385, Paths: 1, SendBuffer: 4 << 20, ReceiveBuffer: 4 << 20, ReceiveOverrun: 64 << 20, PeerBudget: 64 << 20,
		MaxMessage: 1 << 20, Linger: 5 * time.Second, ReconnectMin: 4 * time.Millisecond, ReconnectMax: time.Second,
		TCP: rds.TCPConfig{KeepAliveIdle: 5 * time.Second, KeepAliveInterval: 5 * time.Second, KeepAliveCount: 5, DrainTimeout: 5 * time.Second},
	}
	if !reflect.DeepEqual(cfg, want) {
		t.Errorf("got  %+v\nwant %+v", cfg, want)
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rdsd.toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestLoadErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{"lisen = []\n[tcp]\nbuffers = 1\n", ": unknown: lisen (line 1), tcp.buffers (line 3)"},
		{"npaths = \"8\"\n", ":1:10: npaths: "},
		{"[tcp]\nkeepalive_count = true\n", ":2:19: tcp.keepalive_count: "},
		{"listen = [\n", ":"},
	} {
		file := write(t, c.text)
		s := defaults()
		err := s.load(file)
		if err == nil || !strings.HasPrefix(err.Error(), file) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want %q", c.text, err, c.want)
		}
	}
	s := defaults()
	if err := s.load("/no/such/file"); !os.IsNotExist(err) {
		t.Errorf("no file: %v", err)
	}
}

// One error names every bad setting by its key.
func TestNodeNamesAllThatIsWrong(t *testing.T) {
	t.Parallel()
	s := settings{
		Listen: []string{"0.0.0.0", "host", "224.0.0.1"}, Port: 65536, Paths: 3, Control: noControl, Drain: duration{Duration: -1},
		MaxMessage: 8191, SendBuffer: -1, ReceiveBuffer: 0, ReceiveOverrun: 0, PeerBudget: -5, ReconnectMax: duration{Duration: -1},
		TCP: tcpSettings{SendBuffer: -1, ReceiveBuffer: -1, KeepAliveIdle: duration{Duration: -1}, UserTimeout: duration{Duration: -1}, EventLoops: -1},
		Log: logSettings{Level: "loud", Format: "xml"},
	}
	_, err := s.node()
	if err == nil {
		t.Fatal("no error")
	}
	lines := strings.Split(err.Error(), "\n")
	for _, want := range []string{
		`listen: "0.0.0.0" is not the address of an interface`, `listen: "host" is not the address of an interface`, `listen: "224.0.0.1" is not the address of an interface`,
		"port: 65536 is not between 1 and 65535", "npaths: 3 is neither 1 nor 8", "max_message: 8191 is not between 8192 and 1048576",
		"send_buffer: -1 is less than 1", "receive_buffer: 0 is less than 1", "receive_overrun: 0 is less than 1", "peer_budget: -5 is less than 1",
		"tcp.keepalive_count: 0 is less than 1", "tcp.send_buffer: -1 is less than 0", "tcp.receive_buffer: -1 is less than 0", "tcp.event_loops: -1 is less than 0",
		"drain: -1ns is negative", "tcp.user_timeout: -1ns is negative",
		"reconnect_min: 0s is not a positive duration", "reconnect_max: -1ns is not a positive duration",
		"tcp.keepalive_idle: -1ns is not a positive duration", "tcp.keepalive_interval: 0s is not a positive duration", "tcp.drain_timeout: 0s is not a positive duration",
		`log.level: "loud" is none of debug, info, warn and error`, `log.format: "xml" is neither console nor json`,
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
	if err := s.load(write(t, "listen = ['10.0.0.1']\ndrain = 5\nreconnect_max = 'soon'\nnpaths = 2\n")); err != nil {
		t.Fatal(err)
	}
	_, err := s.node()
	const want = "npaths: 2 is neither 1 nor 8\ndrain: \"5\" is not a duration such as 1m30s\nreconnect_max: \"soon\" is not a duration such as 1m30s"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestFlagsOverrideFile(t *testing.T) {
	t.Parallel()
	file := settings{Listen: []string{"10.0.0.1"}, Port: 1, Paths: 1, Control: "a", Drain: duration{Duration: 1}, Ping: true, Log: logSettings{"info", "json"}}
	flags := settings{Listen: []string{"10.0.0.2"}, Port: 2, Paths: 8, Control: "b", Drain: duration{Duration: 2}, Log: logSettings{"warn", "console"}}
	if got := overlay(file, flags, func(string) bool { return false }); !reflect.DeepEqual(got, file) {
		t.Errorf("no flag given: %+v", got)
	}
	want := flags
	want.Ping = true
	if got := overlay(file, flags, func(string) bool { return true }); !reflect.DeepEqual(got, want) {
		t.Errorf("all flags given: %+v, want %+v", got, want)
	}
	cmd := newCommand()
	for _, name := range []string{"listen", "port", "npaths", "control", "drain", "log-level", "log-format"} {
		if cmd.Flags().Lookup(name) == nil {
			t.Errorf("overlay knows --%s, the command does not", name)
		}
	}
}
