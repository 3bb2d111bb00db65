//go:build !live

package main

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"

	"github.com/rds-go/rds/internal/cli"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/transport/iwarp"
)

// served is a server of regions under test.
type served struct {
	t    *testing.T
	s    *regionServer
	out  *transcript
	stop context.CancelFunc // ends the server as a signal does
	done chan error
	keys map[string]string // keys of regions by name, to be put into operations
}

func serveRegions(t *testing.T, o *serveOptions, connections int, regions ...string) *served {
	t.Helper()
	for _, r := range regions {
		rdstest.Must(t, o.regions.Set(r))
	}
	o.terms = testTerms(16, true)
	params, err := o.params()
	rdstest.Must(t, err)
	w, out := newWatcher(), new(transcript)
	dev := openDevice(t, iwarp.Config{OnEvent: w.note, NoExtensions: o.noExtensions})
	s, err := newRegionServer(dev, o, params, anyPort, w, out.printer())
	rdstest.Must(t, err)
	ctx, stop := context.WithCancel(within(t))
	d := &served{t: t, s: s, out: out, stop: stop, done: make(chan error, 1), keys: make(map[string]string)}
	go func() { d.done <- s.run(ctx, connections); s.close() }()
	for _, r := range out.of(t, "region") {
		d.keys["$"+r.Name] = fmt.Sprintf("key=%s,addr=%s", r.Key, r.Address)
		d.keys["#"+r.Name] = "key=" + r.Key
	}
	return d
}

// op does operations, in which $NAME stands for key and address of a region,
// and #NAME for its key.
func (d *served) op(ops ...string) (out *transcript, ok bool) {
	d.t.Helper()
	var list []operation
	for _, arg := range ops {
		for name, v := range d.keys {
			arg = strings.ReplaceAll(arg, name, v)
		}
		o, err := parseOperation(arg)
		rdstest.Must(d.t, err)
		list = append(list, o)
	}
	t := testTerms(16, true)
	params, _ := t.params()
	w, out := newWatcher(), new(transcript)
	e, err := newExecutor(openDevice(d.t, iwarp.Config{OnEvent: w.note}), &t, w, out.printer())
	rdstest.Must(d.t, err)
	defer e.close()
	ok, err = e.run(within(d.t), d.s.ln.Addr(), params, list)
	if err != nil {
		d.t.Errorf("%v: %v\n%s", ops, err, out) // not Fatal: some call it from other goroutines
	}
	return out, ok
}

func TestEveryOperationWorks(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		d := serveRegions(t, &serveOptions{receive: receiveSpec{8, 256}}, 1, "all:64k:rwa", "victim:4k:r")
		out, ok := d.op("write:$all,len=1000,count=300", "read:$all,len=1000,count=100,fence",
			"write:$all,len=8", "fetch-add:$all,add=1", "compare-swap:$all,compare=0,swap=2",
			"send:len=10,count=2", "send:len=256,solicited", "immediate:value=0xabc", "send-invalidate:#victim,len=1")
		if err := <-d.done; !ok || err != nil {
			t.Fatalf("%v\n%s%s", err, out, d.out)
		}
		sent := make([]byte, 1000)
		pattern(sent, opSeed)
		word := "0xcfcecdcccbcac9c8"
		got := out.of(t, "completion")
		for i, want := range []record{
			{Op: "write", Count: 300, Length: 1000}, {Op: "read", Count: 100, Length: 1000, Hash: sum(sent)}, {Op: "write", Count: 1, Length: 8},
			{Op: "fetch-add", Count: 1, Length: 8, Value: word}, {Op: "compare-swap", Count: 1, Length: 8, Value: "0xcfcecdcccbcac9c9"},
			{Op: "send", Count: 2, Length: 10}, {Op: "send", Count: 1, Length: 256}, {Op: "immediate", Count: 1}, {Op: "send-invalidate", Count: 1, Length: 1},
		} {
			want.Type, want.Status, want.Index = "completion", "success", i
			if i >= len(got) || fmt.Sprint(got[i]) != fmt.Sprint(want) {
				t.Errorf("completion %d: %+v\n%s", i, want, out)
			}
		}
		received := d.out.of(t, "completion")
		for i, want := range []record{
			{Op: "receive", Length: 10, Hash: sum(sent[:10])}, {Op: "receive", Length: 10, Hash: sum(sent[:10])},
			{Op: "receive", Length: 256, Hash: sum(sent[:256]), Solicited: true}, {Op: "immediate", Length: 8, Immediate: "0xabc"},
			{Op: "receive", Length: 1, Hash: sum(sent[:1]), Invalidated: strings.TrimPrefix(d.keys["#victim"], "key=")},
		} {
			want.Type, want.Connection, want.Count, want.Status = "completion", 1, 1, "success"
			if i >= len(received) || fmt.Sprint(received[i]) != fmt.Sprint(want) {
				t.Errorf("receive %d: %+v\n%s", i, want, d.out)
			}
		}
		for _, o := range []*transcript{out, d.out} {
			if e := o.last(t, "end"); !e.Clean || e.Terminate != nil || len(e.Events) != 0 {
				t.Errorf("end: %+v", e)
			}
		}
	})
}

// What the peer may not do ends its connection with the cause, on both sides;
// the next connection finds the regions as they were.
func TestForbiddenOperationsEndOneConnection(t *testing.T) {
	t.Parallel()
	const (
		access = "QP access error"
		bad    = "QP request error"
	)
	for _, c := range []struct {
		op     string
		status string // status of the completion; a Write or Send has succeeded before
		cause  string
		event  string // at the server; "": its receive completion tells
	}{
		{"read:key=0xff,addr=0,len=8", "remote access error", "0x0100", access},
		{"read:#all,addr=0xfffffff8,len=8", "remote access error", "0x0101", access},
		{"read:$all,len=65537", "remote access error", "0x0101", access},
		{"read:#all,addr=0xffffffffffffff00,len=512", "remote access error", "0x0104", access},
		{"read:$all,len=0xffffffff,mem=1", "remote access error", "0x0101", access},
		{"read:$wo,len=8", "remote access error", "0x0102", access},
		{"read:$none,len=8", "remote access error", "0x0102", access},
		{"read:$other,len=8", "remote access error", "0x0103", access},
		{"write:key=0xff,addr=0,len=8", "success", "0x1100", access},
		{"write:$all,len=65537", "success", "0x1101", access},
		{"write:#all,addr=0xffffffffffffff00,len=512", "success", "0x1103", access},
		{"write:$ro,len=8", "success", "0x1100", access},
		{"write:$other,len=8", "success", "0x1102", access},
		{"fetch-add:$wo,add=1", "remote access error", "0x0102", access},
		{"compare-swap:#all,addr=0x100010000", "remote access error", "0x0101", access},
		{"send-invalidate:key=0xff,len=1", "success", "0x0209", ""},
		{"send-invalidate:#other,len=1", "success", "0x0109", ""},
		{"send:len=65", "success", "0x1205", ""},
		{"send:len=1,count=3", "success", "0x1202", bad},
	} {
		t.Run(c.op, func(t *testing.T) {
			rdstest.Bubble(t, func(t *testing.T) {
				o := serveOptions{receive: receiveSpec{2, 64}}
				if strings.HasSuffix(c.op, "count=3") {
					o.receive = receiveSpec{}
				}
				d := serveRegions(t, &o, 2, "all:64k:rwa", "wo:4k:w", "ro:4k:r", "none:4k:-", "other:4k:rwo")
				out, ok := d.op(c.op, "wait")
				first := out.of(t, "completion")[0]
				if ok || first.Status != c.status || c.status != "success" && first.Vendor != c.cause {
					t.Errorf("completion %+v, want %s, %s", first, c.status, c.cause)
				}
				if e := out.last(t, "end"); e.Clean || e.Terminate == nil || e.Terminate.Sender != "peer" || e.Terminate.Cause != c.cause ||
					len(e.Events) != 1 || e.Events[0].Kind != "QP fatal" {
					t.Errorf("our end: %+v, %+v", e, e.Terminate)
				}
				e := d.out.await(t, "end", 1)[0]
				if e.Clean || e.Terminate == nil || e.Terminate.Sender != "us" || e.Terminate.Cause != c.cause {
					t.Errorf("the server's end: %+v, %+v", e, e.Terminate)
				}
				if (len(e.Events) == 1) != (c.event != "") || c.event != "" && (e.Events[0].Kind != c.event || e.Events[0].Cause != c.cause) {
					t.Errorf("the server's events: %+v", e.Events)
				}
				if n := len(d.out.of(t, "completion")); (n == 1) != (c.event == "") || n+e.Flushed != o.receive.count {
					t.Errorf("%d completions at the server, %d receives flushed of %d", n, e.Flushed, o.receive.count)
				}
				if out, ok := d.op("read:$ro,len=4096"); !ok || out.last(t, "completion").Hash != patternSum(4096, 2) {
					t.Errorf("the next connection:\n%s", out)
				}
				if err := <-d.done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func patternSum(n, seed int) string {
	b := make([]byte, n)
	pattern(b, seed)
	return sum(b)
}

// The request at fault has its status, all behind it are flushed.
func TestRequestsBehindAFailureAreFlushed(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		d := serveRegions(t, &serveOptions{}, 1, "wo:4k:w")
		out, _ := d.op("write:$wo,len=8", "read:$wo,len=8,count=40", "send:len=1", "fetch-add:$wo,add=1")
		var got []string
		for _, c := range out.of(t, "completion") {
			got = append(got, fmt.Sprintf("%d %s %d %s", c.Index, c.Op, c.Count, c.Status))
		}
		want := "0 write 1 success; 1 read 1 remote access error; 1 read 39 work request flushed; 2 send 1 work request flushed; 3 fetch-add 1 work request flushed"
		if s := strings.Join(got, "; "); s != want {
			t.Errorf("%s\nwant %s", s, want)
		}
		<-d.done
	})
}

// Errors of the local side: the memory is shorter than the length says.
func TestLocalMemoryIsChecked(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		d := serveRegions(t, &serveOptions{}, 2, "all:64k:rw")
		for _, op := range []string{"write:$all,len=100,mem=99", "read:$all,len=100,mem=99"} {
			out, ok := d.op(op)
			if c := out.of(t, "completion")[0]; ok || c.Status != "local protection error" {
				t.Errorf("%s: %+v", op, c)
			}
		}
		<-d.done
	})
}

func TestPostsThatMakeNoSenseAreRefused(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		d := serveRegions(t, &serveOptions{}, 1, "all:64k:rwa")
		out, ok := d.op("fetch-add:#all,addr=0x100000001,add=1,count=3", "read:$all,len=8")
		if r := out.of(t, "refused"); ok || len(r) != 1 || r[0].Index != 0 || !strings.Contains(r[0].Error, "WorkRequest.RemoteAddr") {
			t.Errorf("%v %+v", ok, r)
		}
		if c := out.of(t, "completion"); len(c) != 1 || c[0].Status != "success" || !out.last(t, "end").Clean {
			t.Errorf("%s", out)
		}
		<-d.done
	})
}

func TestServerWithoutExtensions(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		d := serveRegions(t, &serveOptions{noExtensions: true, receive: receiveSpec{1, 8}}, 2, "all:64k:rwa")
		for op, status := range map[string]string{"immediate:value=1": "success", "fetch-add:$all": "remote invalid request"} {
			out, _ := d.op(op, "wait")
			if c, e := out.last(t, "completion"), out.last(t, "end"); c.Status != status || e.Terminate == nil || e.Terminate.Cause != "0x0206" {
				t.Errorf("%s: %+v, %+v", op, c, e.Terminate)
			}
		}
		<-d.done
	})
}

// A region ends, or a connection, or the server, when a line says so.
func TestServerObeysCommands(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		d := serveRegions(t, &serveOptions{receive: receiveSpec{1, 8}}, 0, "a:4k:rw", "b:4k:rw")
		in, lines := io.Pipe()
		obeyed := make(chan struct{})
		go func() {
			defer close(obeyed)
			d.s.command(within(t), in, d.stop)
		}()
		tell := func(line string) {
			t.Helper()
			if _, err := io.WriteString(lines, line+"\n"); err != nil {
				t.Fatal(err)
			}
		}
		if out, ok := d.op("write:$a,len=4096"); !ok {
			t.Fatal(out)
		}
		d.out.await(t, "end", 1) // and with it what the event loop wrote is ours to see
		tell("hash a")
		tell("hash b")
		hashes := d.out.await(t, "hash", 2)
		if hashes[0].Hash != patternSum(4096, opSeed) || hashes[1].Hash != patternSum(4096, 1) || hashes[1].Name != "b" {
			t.Errorf("%+v", hashes)
		}
		tell("dereg a")
		tell("dereg a")
		if gone := d.out.await(t, "deregistered", 2); gone[0].Error != "" || gone[1].Error == "" {
			t.Errorf("%+v", gone)
		}
		if out, ok := d.op("read:$b,len=8", "read:$a,len=8"); ok || out.last(t, "end").Terminate.Cause != "0x0100" {
			t.Errorf("%s", out)
		}
		tell("mumble")
		tell("hash nobody")
		if n := d.out.await(t, "unknown", 2); n[0].Name != "mumble" {
			t.Errorf("%+v", n)
		}
		// Closed connections: the client waits for it.
		waiting := make(chan *transcript)
		go func() {
			out, ok := d.op("send:len=1", "wait")
			if !ok {
				t.Errorf("%s", out)
			}
			waiting <- out
		}()
		d.out.await(t, "completion", 1)
		tell("close")
		if out := <-waiting; !out.last(t, "end").Clean {
			t.Errorf("%s", out)
		}
		tell("quit")
		if err := <-d.done; err != nil {
			t.Error(err)
		}
		lines.Close()
		<-obeyed
	})
}

// Connections that are open when the server is told to end, end in order.
func TestSignalEndsServerAndConnections(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		d := serveRegions(t, &serveOptions{receive: receiveSpec{1, 8}}, 0, "a:4k:rw")
		const n = 4
		ended := make(chan *transcript, n)
		for range n {
			go func() {
				out, _ := d.op("write:$a,len=100", "send:len=1", "wait")
				ended <- out
			}()
		}
		d.out.await(t, "completion", n)
		d.stop()
		for range n {
			if out := <-ended; !out.last(t, "end").Clean {
				t.Errorf("%s", out)
			}
		}
		if err := <-d.done; err != nil {
			t.Error(err)
		}
		for _, e := range d.out.of(t, "end") {
			if !e.Clean {
				t.Errorf("%+v", e)
			}
		}
	})
}

// What could bring a peer's kernel down needs the word of the user.
func TestPeerToPeerNeedsAWord(t *testing.T) {
	t.Parallel()
	o := opOptions{terms: testTerms(16, true), peerToPeer: true}
	if _, err := o.connParams(); err == nil {
		t.Error("peer-to-peer without --not-siw")
	}
	o.notSIW = true
	for _, kind := range []string{"send", "write", "read"} {
		if err := o.rtr.Set(kind); err != nil || o.rtr.String() != kind {
			t.Errorf("%s: %v, %v", kind, o.rtr, err)
		}
		if p, err := o.connParams(); err != nil || !p.PeerToPeer || p.RTR.String() != kind {
			t.Errorf("%s: %+v, %v", kind, p, err)
		}
	}
	if err := o.rtr.Set("call"); err == nil {
		t.Error("call is taken")
	}
	o.peerToPeer = false
	if _, err := o.connParams(); err == nil {
		t.Error("--rtr without --peer-to-peer")
	}
}

func TestPeerToPeerOperation(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		d := serveRegions(t, &serveOptions{}, 1, "a:4k:rw")
		o := opOptions{terms: testTerms(16, true), peerToPeer: true, notSIW: true, private: "hello"}
		params, err := o.connParams()
		rdstest.Must(t, err)
		out := new(transcript)
		e, err := newExecutor(openDevice(t, iwarp.Config{}), &o.terms, newWatcher(), out.printer())
		rdstest.Must(t, err)
		defer e.close()
		read, err := parseOperation("read:" + d.keys["$a"] + ",len=8")
		rdstest.Must(t, err)
		if ok, err := e.run(within(t), d.s.ln.Addr(), params, []operation{read}); !ok || err != nil || !strings.Contains(out.String(), `"peer_to_peer":true`) {
			t.Errorf("%v, %v\n%s", ok, err, out)
		}
		if err := <-d.done; err != nil {
			t.Error(err)
		}
	})
}

func TestTermsOutOfRangeAreUsageErrors(t *testing.T) {
	t.Parallel()
	for _, set := range []func(*terms){func(t *terms) { t.ird = -1 }, func(t *terms) { t.ird = 16383 }, func(t *terms) { t.ord = 1 << 20 }} {
		tt := testTerms(16, true)
		set(&tt)
		if _, err := tt.params(); err == nil || cli.Usage(err) == nil {
			t.Errorf("%+v is taken", tt)
		}
	}
	tt := testTerms(0, true)
	if p, err := tt.params(); err != nil || p.IRD >= 0 || p.ORD >= 0 {
		t.Errorf("no reads at all: %+v, %v", p, err)
	}
	if _, err := tt.server(context.Background()); err == nil {
		t.Error("no address is an address")
	}
	for _, tt.host = range []string{"::ffff:127.0.0.1", "localhost"} {
		for _, resolve := range []func(context.Context) (netip.AddrPort, error){tt.server, tt.listening} {
			if at, err := resolve(context.Background()); err != nil || at.Addr() != netip.MustParseAddr("127.0.0.1") {
				t.Errorf("%s: %v, %v", tt.host, at, err)
			}
		}
	}
}
