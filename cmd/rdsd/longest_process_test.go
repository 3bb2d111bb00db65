//go:build live

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
)

// A daemon that takes messages of up to 64 KiB, takes all after a restart, and 64 KiB again. What an
// application of another daemon has queued for it meanwhile ends with StatusTooLong where it is longer, and what
// it sends from then on is refused, with the limit in the error. No connection is lost, and of the messages that
// are short enough, of this socket and of others, each arrives once and in order.
func TestDaemonThatTakesShortMessages(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	rdstest.EachWire(t, func(t *testing.T, wire rds.Wire) {
		l := newLongest(t, string(wire))
		for _, short := range []bool{true, true, false, true} {
			l.restart(short)
			resets := counterOf(t, l.ctl, "conn_reset")
			l.send(short)
			if n := counterOf(t, l.ctl, "conn_reset"); n != resets {
				t.Errorf("%d connections are lost", n-resets)
			}
		}
	})
}

// longest is a sender, and a receiver with two sockets whose daemon takes short messages now and then.
type longest struct {
	*testing.T
	ctx      context.Context
	r        *restarts
	from, to *side
	other    *rds.Socket // beside to.sock
	ctl      string      // control socket of the sender's daemon
	file     string      // configuration of the receiver's
	number   uint64
}

const (
	takesShort  = 65536
	longMessage = 100_000
)

func newLongest(t *testing.T, wire string) *longest {
	r := &restarts{T: t, wire: wire, dir: rdstest.Dir(t)}
	l := &longest{T: t, r: r, ctl: filepath.Join(r.dir, "ctl"), file: filepath.Join(r.dir, "short.toml")}
	must(t, os.WriteFile(l.file, []byte(fmt.Sprintf("max_message = %d\n", takesShort)), 0o600))
	l.from, l.to = r.sides()
	r.startWith(l.from, "--control", l.ctl)
	r.attach(l.from)
	r.start(l.to)
	r.attach(l.to)
	var err error
	l.other, err = l.to.client.Bind(rdstest.AddrOf(l.to.addr.Addr(), 4001))
	must(t, err)
	var cancel context.CancelFunc
	l.ctx, cancel = context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return l
}

// message is a numbered one to one of the two sockets in turn.
func (l *longest) message(size int) *rds.Outgoing {
	l.number++
	o := &rds.Outgoing{To: l.to.addr, Data: binary.BigEndian.AppendUint64(make([]byte, 0, size), l.number), Notify: true, Token: l.number}
	o.Data = o.Data[:size]
	if l.number%2 == 0 {
		o.To = l.other.LocalAddrPort()
	}
	return o
}

// restart ends the receiver's daemon, sends, starts the daemon, and judges what becomes of the messages.
func (l *longest) restart(short bool) {
	l.Helper()
	terminate(l.T, l.to.daemon)
	rdstest.Eventually(l, "the end of the links", func() bool {
		info, err := rds.FetchInfo(l.ctx, l.ctl)
		must(l, err)
		for i := range info.Connections {
			if c := &info.Connections[i]; c.Remote == l.to.addr.Addr() && c.Connected {
				return false
			}
		}
		return true
	})
	first := l.number + 1
	tooLong := make(map[uint64]bool)
	for i := range 100 {
		size := 1000
		if i%23 == 5 {
			size = longMessage
		}
		o := l.message(size)
		tooLong[o.Token] = short && size == longMessage
		must(l, l.from.sock.SendMessage(l.ctx, o))
	}
	var more []string
	if short {
		more = []string{"--config", l.file}
	}
	l.r.startWith(l.to, more...)
	l.judge(first, tooLong)
}

// judge expects the fates of messages and, in order, those that are not too long.
func (l *longest) judge(first uint64, tooLong map[uint64]bool) {
	l.Helper()
	for range tooLong {
		m, err := l.from.sock.Recv(l.ctx)
		must(l, err)
		want := rds.StatusSuccess
		if tooLong[m.Token] {
			want = rds.StatusTooLong
		}
		if m.Kind != rds.KindStatus || m.Token < first || m.Token > l.number || m.Status != want {
			l.Errorf("PROMISE: fate %+v, not %v", m, want)
		}
	}
	for n := first; n <= l.number; n++ {
		if tooLong[n] {
			continue
		}
		s := l.to.sock
		if n%2 == 0 {
			s = l.other
		}
		m, err := s.Recv(l.ctx)
		for errors.Is(err, rds.ErrDaemonLost) { // each socket is told of the restart once
			m, err = s.Recv(l.ctx)
		}
		if err != nil || binary.BigEndian.Uint64(m.Data) != n {
			l.Fatalf("PROMISE: message %d: %v, %d bytes", n, err, len(m.Data))
		}
		m.Release()
	}
}

// send sends to the daemon that is up, which is known by now.
func (l *longest) send(short bool) {
	l.Helper()
	for range 50 {
		o := l.message(takesShort)
		must(l, l.from.sock.SendMessage(l.ctx, o))
		if short {
			err := l.from.sock.SendMessage(l.ctx, &rds.Outgoing{To: l.to.addr, Data: make([]byte, longMessage), Notify: true})
			var e *rds.MessageTooLongError
			if !errors.As(err, &e) || e.Limit != takesShort || e.Size != longMessage || e.Peer != l.to.addr.Addr() || !errors.Is(err, syscall.EMSGSIZE) {
				l.Fatalf("too long: %v", err)
			}
			if text := err.Error(); !strings.Contains(text, "65536") {
				l.Errorf("the limit is not in %q", text)
			}
		}
		l.judge(o.Token, map[uint64]bool{o.Token: false})
	}
}
