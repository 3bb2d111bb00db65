//go:build live

package iwarp

import (
	"bytes"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp/ddp"
	"github.com/rds-go/rds/transport/iwarp/mpa"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
)

// What a fuzzed byte of flags means.
const (
	fuzzCRC       = 1 << iota
	fuzzMarkers   // our side asks for them
	fuzzFramed    // the input is ULPDUs, see framed
	fuzzResponder // our side connects
	fuzzSetup     // the input comes instead of the Request or Reply
	fuzzReads     // our side has reads under way
)

// framed cuts ULPDUs from fuzzed input, each behind an octet that tells its
// length, and gives those that name the key 1 a real one: no fuzzer guesses it.
func framed(p *raw, data []byte, key mr.Key) (stream []byte) {
	for len(data) > 0 {
		n := min(int(data[0]), len(data)-1)
		u := bytes.Clone(data[1 : 1+n])
		data = data[1+n:]
		for _, at := range []int{2, ddp.UntaggedLen + 16, ddp.UntaggedLen + 8} { // Writes, Reads, atomics
			if len(u) >= at+4 && bytes.Equal(u[at:at+4], []byte{0, 0, 0, 1}) {
				copy(u[at:], mrKey(key))
			}
		}
		stream = append(stream, p.frame(u)...)
	}
	return stream
}

func mrKey(k mr.Key) []byte { return []byte{byte(k >> 24), byte(k >> 16), byte(k >> 8), byte(k)} }

// inFuzz makes an input of framed from ULPDUs.
func inFuzz(ulpdus ...[]byte) (data []byte) {
	for _, u := range ulpdus {
		data = append(append(data, byte(len(u))), u...)
	}
	return data
}

// FuzzStream: whatever a peer sends, in the set-up or after it, the connection
// ends when the peer ends it, every request completes, memory stays bounded, and
// regions that it cannot write are as they were.
func FuzzStream(f *testing.F) {
	const base = 0x10000
	for i, s := range fuzzStreams(base) {
		for flags := range byte(2 * fuzzReads) {
			if (int(flags)+i)%3 == 0 { // a third of them, of all kinds
				f.Add(flags, uint64(i), s)
			}
		}
	}
	host := newEnd(f, openDevice(f, Config{EventLoops: 1, ReadBuffer: 4 << 10}), QPConfig{})
	open, err := host.pd.RegMR(make([]byte, 4096), allRights, base)
	if err != nil {
		f.Fatal(err)
	}
	fixed, err := host.pd.RegMR(bytes.Repeat([]byte{untouched}, 4096), mr.RemoteRead, base)
	if err != nil {
		f.Fatal(err)
	}
	ln := listen(f, host.dev)
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	f.Fuzz(func(t *testing.T, flags byte, seed uint64, data []byte) {
		if len(data) > 1<<17 {
			t.Skip("longer than one stream is tried with")
		}
		r := rand.New(rand.NewPCG(seed, 0))
		e := host.of(t).with(QPConfig{})
		defer e.qp.Close()
		if flags&fuzzSetup != 0 {
			fuzzSetUp(t, r, e, ln, flags, data)
			return
		}
		s := rawStream{initiator: flags&fuzzResponder == 0, crc: flags&fuzzCRC != 0, markers: flags&fuzzMarkers != 0}
		p := openStream(t, e, s)
		drained := make(chan struct{})
		go func() {
			_, _ = io.Copy(io.Discard, p.conn)
			close(drained)
		}()
		for i := range uint64(4) {
			e.post(100+i, open.SGE(0, 4096))
		}
		requests := 4
		if flags&fuzzReads != 0 {
			p.send(emptyWrite())
			e.send(WorkRequest{ID: 1, Op: OpRead, SGE: []SGE{open.SGE(0, 8)}}, WorkRequest{ID: 2, Op: OpFetchAdd, SGE: []SGE{open.SGE(8, 8)}})
			requests += 2
		}
		stream := data
		if flags&fuzzFramed != 0 {
			stream = framed(p, data, open.Key())
		}
		p.writeSplit(r, stream)
		_ = p.conn.CloseWrite()
		if e.ended() == nil {
			t.Error("no reason")
		}
		<-drained
		for _, c := range e.rest() {
			if c.ID >= 100 || c.Status != Success {
				requests--
			}
		}
		if flags&fuzzReads == 0 && requests != 0 {
			t.Errorf("%d requests did not complete", requests)
		}
		if !bytes.Equal(fixed.Bytes(), bytes.Repeat([]byte{untouched}, 4096)) {
			t.Fatal("memory that may not be written has changed")
		}
		var now runtime.MemStats
		if seed%64 == 0 {
			if runtime.ReadMemStats(&now); now.HeapInuse > before.HeapInuse+256<<20 {
				t.Errorf("%d MiB in use", now.HeapInuse>>20)
			}
		}
	})
}

// fuzzSetUp has data come instead of the set-up frame.
func fuzzSetUp(t *testing.T, r *rand.Rand, e *end, ln *Listener, flags byte, data []byte) {
	ctx := within(t)
	if flags&fuzzResponder != 0 {
		l := listenRaw(t)
		done := connecting(t, e, l.addr(), ConnParams{Rev: 2, Guard: -1, PeerToPeer: flags&fuzzReads != 0})
		p := l.accept()
		p.setup()
		p.writeSplit(r, data)
		_ = p.conn.CloseWrite()
		if err := <-done; err == nil {
			e.ended()
		}
		return
	}
	p := dialRaw(t, ln.Addr())
	p.writeSplit(r, data)
	_ = p.conn.CloseWrite()
	// Either the connection ends, or a program is asked first.
	over := make(chan struct{})
	go func() {
		_ = p.conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		_, _ = io.Copy(io.Discard, p.conn)
		close(over)
	}()
	for {
		select {
		case in := <-ln.queue:
			if _, err := in.Accept(ctx, e.qp, ConnParams{}); err == nil {
				e.ended()
			}
		case <-over:
			return
		}
	}
}

// FuzzReceiverMatchesItsTwin is TestReceiverMatchesItsTwin with other streams.
func FuzzReceiverMatchesItsTwin(f *testing.F) {
	for i := range streams {
		f.Add(uint64(i), byte(i))
	}
	host := twinHost(f, 4<<10)
	f.Fuzz(func(t *testing.T, seed uint64, kind byte) {
		s := streams[int(kind)%len(streams)]
		s.slow = false
		compareTwins(t, host.of(t), seed, s)
	})
}

// fuzzStreams are the inputs that FuzzStream begins with, of every kind that a peer may send;
// base is the address of its regions.
func fuzzStreams(base uint64) [][]byte {
	p := &raw{}
	read := rdmap.ReadRequest{SinkSTag: 5, Size: 64, SourceSTag: 1, SourceTO: base}
	atomic := rdmap.AtomicRequest{STag: 1, TO: base, Add: 1, CompareMask: ^uint64(0)}
	return [][]byte{
		nil,
		inFuzz(write(1, base, []byte("payload"))),
		inFuzz(p.sendMessage([]byte("one")), p.sendMessage(nil), untagged(rdmap.OpImmediate, 0, 3, 0, true, make([]byte, 8))),
		inFuzz(p.read(read), p.read(read), untagged(rdmap.OpAtomicRequest, 1, 3, 0, true, atomic.AppendTo(nil))),
		inFuzz(untagged(rdmap.OpSend, 0, 1, 0, false, []byte("ab")), write(1, base+9, []byte("c")), untagged(rdmap.OpSend, 0, 1, 2, true, nil)),
		inFuzz(tagged(rdmap.OpReadResponse, 2, base, true, make([]byte, 8)), tagged(rdmap.OpReadResponse, 2, base, true, nil)),
		inFuzz(terminating(rdmap.NewTerminate(rdmap.CauseAccess, read.AppendTo(untagged(rdmap.OpReadRequest, 1, 1, 0, true, nil))))),
		mpa.AppendFPDU(nil, write(1, base, []byte("x")), true),
		request(true).AppendTo(nil),
		append(reply(false).AppendTo(nil), mpa.AppendFPDU(nil, emptyWrite(), false)...),
		bytes.Repeat([]byte{0xff}, 70_000),
	}
}
