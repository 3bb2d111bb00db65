package conn

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/wire"
)

// runner carries out the commands of a script on named cores.
type runner struct {
	now   time.Time
	cores map[string]*scripted
	out   strings.Builder
}

// scripted is a core and what its owner keeps.
type scripted struct {
	*Conn
	in       [MaxPaths]Inbound
	batch    [MaxPaths]Batch
	accounts map[uint16]*Account // by source port
	ourMap   wire.CongestionMap
	tokens   uint64
}

func newRunner() *runner {
	return &runner{now: time.Unix(1_700_000_000, 0), cores: map[string]*scripted{}}
}

// args are the words of a command: values in order and key=value.
type args struct {
	words []string
	named map[string]string
	err   error
}

func parseArgs(words []string) *args {
	a := &args{named: map[string]string{}}
	for _, w := range words {
		if k, v, ok := strings.Cut(w, "="); ok {
			a.named[k] = v
		} else {
			a.words = append(a.words, w)
		}
	}
	return a
}

func (a *args) word() string {
	if len(a.words) == 0 {
		a.err = errors.Join(a.err, errors.New("a word is missing"))
		return ""
	}
	w := a.words[0]
	a.words = a.words[1:]
	return w
}

func (a *args) number(s string) int {
	n, err := strconv.ParseUint(s, 0, 63)
	a.err = errors.Join(a.err, err)
	return int(n)
}

func (a *args) int() int { return a.number(a.word()) }

func (a *args) key(k string, def int) int {
	if v, ok := a.named[k]; ok {
		return a.number(v)
	}
	return def
}

func (a *args) flag(name string) bool {
	for i, w := range a.words {
		if w == name {
			a.words = append(a.words[:i], a.words[i+1:]...)
			return true
		}
	}
	return false
}

func (r *runner) printf(format string, v ...any) { fmt.Fprintf(&r.out, format+"\n", v...) }

// command runs one command and prints what the core asks for afterwards.
func (r *runner) command(words []string) error {
	a := parseArgs(words)
	cmd := a.word()
	name := a.word()
	if cmd == "new" {
		return r.create(name, a)
	}
	s := r.cores[name]
	if s == nil {
		return fmt.Errorf("no core %q", name)
	}
	fn := commands[cmd]
	if fn == nil {
		return fmt.Errorf("no command %q", cmd)
	}
	fn(r, s, a)
	if a.err != nil {
		return a.err
	}
	if len(a.words) > 0 {
		return fmt.Errorf("what is %q", a.words)
	}
	r.report(s)
	return nil
}

func (r *runner) report(s *scripted) {
	for _, a := range s.TakeActions(nil) {
		switch a.Kind {
		case Dial, CancelDial, Transmit:
			r.printf("  %v path %d", a.Kind, a.Path)
		case Start:
			r.printf("  start link %d as path %d", a.Link, a.Path)
		case CloseLink:
			r.printf("  close link %d", a.Link)
		default:
			r.printf("  %v", a.Kind)
		}
	}
	for _, f := range s.TakeFates(nil) {
		r.printf("  fate of %d: %v", f.Token, f.Status)
	}
	for _, a := range s.TakeFreed(nil) {
		r.printf("  room for port %d", a.Owner)
	}
}

func (r *runner) create(name string, a *args) error {
	s := &scripted{accounts: map[uint16]*Account{}}
	addr := func(k, def string) netip.Addr {
		if v, ok := a.named[k]; ok {
			def = v
		}
		return netip.MustParseAddr(def)
	}
	s.Conn = New(Config{
		Local: addr("local", "10.0.0.1"), Remote: addr("remote", "10.0.0.2"),
		Paths: a.key("paths", 1), Generation: uint32(a.key("gen", 0x1a2b3c4d)), FirstSequence: uint64(a.key("seq", 1)),
		Budget: a.key("budget", 0), MaxPongs: a.key("pongs", 0), IgnorePings: a.flag("mute"),
		Pool: new(buf.Pool), Rand: rand.New(rand.NewPCG(1, 2)), LocalMap: func(m *wire.CongestionMap) { *m = s.ourMap },
	})
	r.cores[name] = s
	r.printf("connector=%v", s.connector())
	return a.err
}

// account is the send buffer of the socket bound to a port.
func (s *scripted) account(port uint16) *Account {
	a := s.accounts[port]
	if a == nil {
		a = &Account{Owner: port}
		a.SetLimit(1 << 20)
		s.accounts[port] = a
	}
	return a
}

// frames prints the messages in b, which begins skip bytes into the first one.
func (r *runner) frames(b []byte, skip int, dump bool) {
	if skip > 0 {
		r.printf("  (%d bytes of a message begun before)", min(skip, len(b)))
		b = b[min(skip, len(b)):]
	}
	for len(b) >= wire.HeaderSize {
		var h wire.Header
		_ = h.Decode(b)
		n := min(len(b), wire.HeaderSize+int(h.Length))
		switch {
		case dump && h.Length <= 64:
			r.printf("  %s", hex.EncodeToString(b[:n]))
		default:
			r.printf("  %s", describe(&h, b[wire.HeaderSize:n]))
		}
		b = b[n:]
	}
}

func describe(h *wire.Header, payload []byte) string {
	var sb strings.Builder
	hs := wire.ParseHandshake(&h.Extensions)
	switch {
	case h.IsCongestion():
		var m wire.CongestionMap
		copy(m[:], payload)
		fmt.Fprintf(&sb, "map of %d bytes, congested:", h.Length)
		for p := range 1 << 16 {
			if m.Congested(uint16(p)) {
				fmt.Fprintf(&sb, " %d", p)
			}
		}
	case h.Dport == wire.PortHost && h.Sport == wire.PortProbe:
		fmt.Fprintf(&sb, "probe %d", h.Sequence)
	case h.Sport == wire.PortHost && h.Dport == wire.PortProbe:
		fmt.Fprintf(&sb, "probe's pong %d", h.Sequence)
	default:
		fmt.Fprintf(&sb, "message %d, %d>%d, %d bytes", h.Sequence, h.Sport, h.Dport, h.Length)
	}
	if h.Retransmitted() {
		sb.WriteString(", retransmitted")
	}
	if hs.HasPaths {
		fmt.Fprintf(&sb, ", paths %d", hs.Paths)
	}
	if hs.Generation != 0 {
		fmt.Fprintf(&sb, ", generation %08x", hs.Generation)
	}
	if hs.SourceIndex {
		sb.WriteString(", source index")
	}
	return sb.String()
}
