//go:build !live

package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/cli"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
)

func pingOpts(size int, crc bool) *pingOptions {
	return &pingOptions{terms: testTerms(1, crc), size: cli.Number(size), validate: true, verbose: size <= 64}
}

// startPingServer runs a server for that many connections.
func startPingServer(t *testing.T, o *pingOptions, connections int) (at netip.AddrPort, out *transcript, done <-chan error) {
	t.Helper()
	params, err := o.params()
	rdstest.Must(t, err)
	out = new(transcript)
	s, err := newPingServer(openDevice(t, iwarp.Config{}), o, params, anyPort, out.printer())
	rdstest.Must(t, err)
	ctx := within(t)
	end := make(chan error, 1)
	go func() { end <- s.run(ctx, connections); s.close() }()
	return s.ln.Addr(), out, end
}

func runClient(t *testing.T, o *pingOptions, to netip.AddrPort) (*transcript, error) {
	t.Helper()
	params, err := o.params()
	rdstest.Must(t, err)
	out := new(transcript)
	c, err := newPingClient(openDevice(t, iwarp.Config{}), o, out.printer())
	rdstest.Must(t, err)
	defer c.close()
	return out, c.run(within(t), netip.AddrPort{}, to, params)
}

// A hundred pings of each size come back unchanged, with and without CRC, and
// both sides have checked every octet.
func TestHundredPingsOfEachSize(t *testing.T) {
	t.Parallel()
	for _, crc := range []bool{true, false} {
		for _, size := range []int{minPing, 64, 1000, 4096, 65535, maxPing} {
			t.Run(fmt.Sprintf("crc %v/%d", crc, size), func(t *testing.T) {
				rdstest.Bubble(t, func(t *testing.T) {
					server, client := pingOpts(maxPing, crc), pingOpts(size, crc)
					server.count, client.count = 100, 100
					at, sout, served := startPingServer(t, server, 1)
					cout, err := runClient(t, client, at)
					if err != nil {
						t.Errorf("client: %v", err)
					}
					if err := <-served; err != nil {
						t.Errorf("server: %v\n%s", err, sout)
					}
					for _, out := range []*transcript{cout, sout} {
						if e := out.last(t, "end"); e.Pings != 100 || e.Size != size || e.CRC != crc || e.Error != "" {
							t.Errorf("%s of %d: %+v", e.Role, size, e)
						}
					}
				})
			})
		}
	}
}

// Either side alone can ask for CRCs.
func TestEitherSideTurnsCRCOn(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		for _, c := range []struct{ server, client bool }{{true, false}, {false, true}} {
			server, client := pingOpts(64, c.server), pingOpts(64, c.client)
			client.count = 2
			at, _, served := startPingServer(t, server, 1)
			out, err := runClient(t, client, at)
			if err := errors.Join(err, <-served); err != nil || !out.last(t, "connected").CRC {
				t.Errorf("%+v: %v\n%s", c, err, out)
			}
		}
	})
}

func TestVerbosePrintsEachPing(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		server, client := pingOpts(64, true), pingOpts(64, true)
		client.count = 3
		at, sout, served := startPingServer(t, server, 1)
		cout, err := runClient(t, client, at)
		rdstest.Must(t, errors.Join(err, <-served))
		for _, out := range []*transcript{sout, cout} {
			list := out.of(t, "ping")
			if len(list) != 3 {
				t.Fatalf("%d pings in\n%s", len(list), out)
			}
			for i, p := range list {
				if p.Number != i || !strings.HasPrefix(p.Data, fmt.Sprintf("rdma-ping-%d: ", i)) || len(p.Data) != 63 {
					t.Errorf("%d: %+v", i, p)
				}
			}
		}
		if text := (pingLine{Role: "server", Data: "x"}).String() + "|" + (pingLine{Role: "client", Data: "x"}).String(); text != "server ping data: x|ping data: x" {
			t.Error(text)
		}
	})
}

// Many clients at a time, then a signal: the end of a persistent server.
func TestPersistentServerServesManyAtATime(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		o := pingOpts(4096, false)
		params, _ := o.params()
		out := new(transcript)
		s, err := newPingServer(openDevice(t, iwarp.Config{}), o, params, anyPort, out.printer())
		rdstest.Must(t, err)
		ctx, interrupt := context.WithCancel(within(t))
		served := make(chan error, 1)
		go func() { served <- s.run(ctx, 0); s.close() }()
		const clients = 8
		ended := make(chan error, clients)
		dev := openDevice(t, iwarp.Config{})
		for range clients {
			co := pingOpts(4096, false)
			co.count = 20
			c, err := newPingClient(dev, co, new(transcript).printer())
			rdstest.Must(t, err)
			go func() {
				defer c.close()
				ended <- c.run(ctx, netip.AddrPort{}, s.ln.Addr(), params)
			}()
		}
		for range clients {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		// One more, so that the server has one to end.
		idle := newRawPinger(t, s.ln.Addr())
		interrupt()
		if err := <-served; err != nil {
			t.Errorf("interrupted server: %v", err)
		}
		<-idle.qp.Done()
		ends := out.of(t, "end")
		if len(ends) != clients+1 || ends[clients].Error != errInterrupted.Error() {
			t.Errorf("%d connections ended, the last: %+v", len(ends), ends[len(ends)-1])
		}
	})
}

// rawPinger is a client that does as a test says.
type rawPinger struct {
	*pingEnd
	t   *testing.T
	ctx context.Context
	mem *iwarp.MR
}

func newRawPinger(t *testing.T, to netip.AddrPort) *rawPinger {
	t.Helper()
	dev := openDevice(t, iwarp.Config{})
	pd, err := dev.AllocPD()
	rdstest.Must(t, err)
	tt := testTerms(1, true)
	e, err := newPingEnd(dev, pd, &tt)
	rdstest.Must(t, err)
	t.Cleanup(e.close)
	mem, err := pd.RegMR(make([]byte, maxPing), mr.LocalWrite|mr.RemoteRead|mr.RemoteWrite, pingBase)
	rdstest.Must(t, err)
	p := &rawPinger{pingEnd: e, t: t, ctx: within(t), mem: mem}
	params, _ := tt.params()
	if _, err := dev.Connect(p.ctx, e.qp, to, params); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *rawPinger) send(w iwarp.WorkRequest) {
	p.t.Helper()
	if _, err := p.qp.PostSend(w); err != nil {
		p.t.Fatal(err)
	}
}

// What a client does wrong ends its connection with a reason, and no other.
func TestServerRefusesWhatRpingDoesNotSay(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		o := pingOpts(4096, true)
		const cases = 8
		at, out, served := startPingServer(t, o, cases+1)
		text := func(p *rawPinger, size int) advert {
			fillPing(p.mem.Bytes()[:size], 0)
			return advert{addr: p.mem.Base(), key: p.mem.Key(), size: uint32(size)}
		}
		for i, c := range []struct {
			name string
			do   func(p *rawPinger)
			want string
		}{
			{"short message", func(p *rawPinger) { p.send(iwarp.WorkRequest{Inline: make([]byte, 15)}) }, "message of 15 octets"},
			{"long message", func(p *rawPinger) { p.send(iwarp.WorkRequest{Inline: make([]byte, 17)}) }, "local length error"},
			{"empty ping", func(p *rawPinger) { p.send(message(advert{addr: p.mem.Base(), key: p.mem.Key()})) }, "ping of 0 bytes"},
			{"ping too long", func(p *rawPinger) { p.send(message(text(p, 4097))) }, "ping of 4097 bytes"},
			{"huge ping", func(p *rawPinger) {
				p.send(message(advert{addr: p.mem.Base(), key: p.mem.Key(), size: 1<<32 - 1}))
			}, "ping of 4294967295 bytes"},
			{"wrong key", func(p *rawPinger) {
				a := text(p, 64)
				a.key ^= 0xff
				p.send(message(a))
			}, "remote access error"},
			{"no NUL", func(p *rawPinger) {
				a := text(p, 64)
				p.mem.Bytes()[63] = 'x'
				p.send(message(a))
			}, "ping 0 has no end"},
			{"sink too short", func(p *rawPinger) {
				a := text(p, 64)
				p.send(message(a))
				if _, err := p.receive(p.ctx); err != nil {
					t.Error(err)
				}
				a.size = 63
				p.send(message(a))
			}, "sink of 63 bytes"},
		} {
			p := newRawPinger(t, at)
			c.do(p)
			<-p.qp.Done()
			p.close()
			if e := out.await(t, "end", i+1)[i]; !strings.Contains(e.Error, c.want) || e.Pings != 0 {
				t.Errorf("%s: %+v", c.name, e)
			}
		}
		client := pingOpts(64, true)
		client.count = 3
		if _, err := runClient(t, client, at); err != nil {
			t.Errorf("a good client afterwards: %v", err)
		}
		var exit cli.Exit
		if err := <-served; !errors.As(err, &exit) || exit != cli.StatusFailed {
			t.Errorf("server: %v", err)
		}
	})
}

// serveRaw accepts one client and echoes as edit says: it gets each ping before
// it is written back, and says whether to go on.
func serveRaw(t *testing.T, edit func(n int, ping []byte) bool) netip.AddrPort {
	t.Helper()
	o := pingOpts(64, true)
	params, _ := o.params()
	s, err := newPingServer(openDevice(t, iwarp.Config{}), o, params, anyPort, new(transcript).printer())
	rdstest.Must(t, err)
	t.Cleanup(s.close)
	ctx := within(t)
	s.wg.Go(func() {
		in, err := s.ln.Accept(ctx)
		if err != nil {
			return
		}
		c, _, err := s.accept(ctx, 1, in)
		if err != nil {
			return
		}
		defer c.close()
		for n := 0; ; n++ {
			from, err := c.receive(ctx)
			if err != nil {
				return
			}
			ping, err := c.read(ctx, from)
			if err != nil || !edit(n, ping) {
				<-c.qp.Done()
				return
			}
			_, _ = c.qp.PostSend(message(advert{}))
			to, err := c.receive(ctx)
			if err != nil {
				return
			}
			_, _ = c.qp.PostSend(
				iwarp.WorkRequest{Op: iwarp.OpWrite, SGE: []iwarp.SGE{c.buf.SGE(0, len(ping))}, RemoteKey: to.key, RemoteAddr: to.addr}, message(advert{}))
		}
	})
	return s.ln.Addr()
}

func TestClientNoticesAWrongEcho(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		at := serveRaw(t, func(n int, ping []byte) bool {
			if n == 2 {
				ping[40] ^= 1
			}
			return true
		})
		client := pingOpts(64, true)
		client.count = 10
		out, err := runClient(t, client, at)
		if e := out.last(t, "end"); !errors.Is(err, errPing) || e.Pings != 2 || !strings.Contains(e.Error, "octet 40") {
			t.Errorf("%v: %+v", err, e)
		}
	})
}

func TestClientGivesUpOnASilentServer(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		at := serveRaw(t, func(int, []byte) bool { return false })
		o, dev := pingOpts(64, true), openDevice(t, iwarp.Config{})
		params, _ := o.params()
		c, err := newPingClient(dev, o, new(transcript).printer())
		rdstest.Must(t, err)
		defer c.close()
		if _, err := dev.Connect(within(t), c.qp, at, params); err != nil {
			t.Fatal(err)
		}
		o.timeout = cli.Interval(50 * time.Millisecond)
		if err := c.once(within(t), 0); !errors.Is(err, errTimeout) {
			t.Error(err)
		}
	})
}

// Without a count the client pings until it is interrupted; that is no failure.
// With one it is.
func TestInterruptedClient(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		for _, count := range []cli.Number{0, 1000} {
			ctx, interrupt := context.WithCancel(within(t))
			at := serveRaw(t, func(n int, _ []byte) bool {
				if n == 5 {
					interrupt()
				}
				return true
			})
			o := pingOpts(64, true)
			o.count = count
			params, _ := o.params()
			out := new(transcript)
			c, err := newPingClient(openDevice(t, iwarp.Config{}), o, out.printer())
			rdstest.Must(t, err)
			err = c.run(ctx, netip.AddrPort{}, at, params)
			c.close()
			if (err != nil) != (count > 0) {
				t.Errorf("count %d: %v", count, err)
			}
			if e := out.last(t, "end"); e.Pings < 5 {
				t.Errorf("count %d: %+v", count, e)
			}
		}
	})
}
