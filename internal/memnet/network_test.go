//go:build !live

package memnet

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rds-go/rds/internal/gnetloop"
	"github.com/rds-go/rds/internal/streamtest"
	"github.com/rds-go/rds/transport"
)

// Ports are chosen, and used once.
func TestListenAndDial(t *testing.T) {
	bubble(t, Options{}, gnetloop.Options{}, func(t *testing.T, r *rig) {
		if _, err := r.stack.Listen(r.addr, nil); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("Listen: %v", err)
		}
		a, err := r.stack.Dial(t.Context(), at(other, 9), netip.AddrPortFrom(netip.AddrFrom16(host.As16()), r.addr.Port()))
		streamtest.Must(t, err)
		b := <-r.accepted
		if a.LocalAddr() != at(other, 9) || a.RemoteAddr() != r.addr || b.LocalAddr() != r.addr || b.RemoteAddr() != at(other, 9) || !a.Here() {
			t.Errorf("%v-%v, %v-%v", a.LocalAddr(), a.RemoteAddr(), b.LocalAddr(), b.RemoteAddr())
		}
		if _, err := r.stack.Dial(t.Context(), at(other, 9), r.addr); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("Dial from a port that is in use: %v", err)
		}
		a.Close(transport.Abort)
		if c, err := r.stack.Dial(t.Context(), at(other, 9), r.addr); err != nil {
			t.Errorf("Dial from a port that is free again: %v", err)
		} else if (<-r.accepted).RemoteAddr() != c.LocalAddr() {
			t.Error("another connection")
		}
		_, err = r.stack.Dial(t.Context(), netip.AddrPort{}, at(other, 5))
		var op *net.OpError
		if !errors.Is(err, syscall.ECONNREFUSED) || !errors.As(err, &op) || op.Op != "dial" {
			t.Errorf("Dial of nobody: %v", err)
		}
	})
}

// A dial that nobody answers ends with its context, and with its stack.
func TestDialHonoursContext(t *testing.T) {
	bubble(t, Options{}, gnetloop.Options{}, func(t *testing.T, r *rig) {
		release := r.net.Hold(func(_, to netip.AddrPort) bool { return to == r.addr })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.stack.Dial(ctx, netip.AddrPort{}, r.addr); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Dial: %v", err)
		}
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := r.stack.Dial(canceled, netip.AddrPort{}, r.addr); !errors.Is(err, context.Canceled) {
			t.Errorf("Dial: %v", err)
		}
		s := r.open(gnetloop.Options{})
		failed := make(chan error, 2)
		go func() {
			_, err := s.Dial(t.Context(), netip.AddrPort{}, r.addr)
			failed <- err
		}()
		synctest.Wait()
		_ = s.Close()
		if err := <-failed; !errors.Is(err, transport.ErrClosed) {
			t.Errorf("Dial: %v", err)
		}
		go func() {
			_, err := r.stack.Dial(t.Context(), netip.AddrPort{}, r.addr)
			failed <- err
		}()
		synctest.Wait()
		release()
		if err := <-failed; err != nil {
			t.Errorf("Dial: %v", err)
		}
	})
}

// Latency delays the connection by a round trip, bytes by half of one.
func TestLatency(t *testing.T) {
	const way = 30 * time.Millisecond
	bubble(t, Options{Latency: way}, gnetloop.Options{}, func(t *testing.T, r *rig) {
		begin := time.Now()
		p, c, h := r.peer()
		if d := time.Since(begin); d != 2*way {
			t.Errorf("connected after %v", d)
		}
		begin = time.Now()
		_, _ = c.Writev([][]byte{{1}})
		if _, err := io.ReadFull(p, make([]byte, 1)); err != nil || time.Since(begin) != way || c.Acked() != 0 {
			t.Errorf("a byte after %v, %v, %d acknowledged", time.Since(begin), err, c.Acked())
		}
		<-time.After(way)
		synctest.Wait()
		if c.Acked() != 1 {
			t.Errorf("%d acknowledged", c.Acked())
		}
		b := streamtest.Pattern(1 << 20)
		go func() { _, _ = p.Write(b); _ = p.Close() }()
		if cause := <-h.Ended; cause != io.EOF {
			t.Errorf("Closed(%v)", cause)
		}
		got(t, h, b)
	})
}

// A test can hold back acknowledgements while bytes arrive.
func TestHoldAcknowledgements(t *testing.T) {
	bubble(t, Options{}, gnetloop.Options{}, func(t *testing.T, r *rig) {
		p, c, _ := r.peer()
		release := r.net.Hold(func(from, to netip.AddrPort) bool { return from == c.RemoteAddr() })
		_, _ = c.Writev([][]byte{{1, 2, 3}})
		if _, err := io.ReadFull(p, make([]byte, 3)); err != nil {
			t.Fatal(err)
		}
		if c.Acked() != 0 || c.Written() != 3 {
			t.Errorf("%d of %d acknowledged", c.Acked(), c.Written())
		}
		release()
		if c.Acked() != 3 {
			t.Errorf("%d acknowledged", c.Acked())
		}
	})
}

// Bytes beyond the peer's receive buffer are not acknowledged until the peer reads.
func TestWindow(t *testing.T) {
	bubble(t, Options{}, gnetloop.Options{}, func(t *testing.T, r *rig) {
		p, c, h := r.peer()
		_ = p.SetReadBuffer(1000)
		b := streamtest.Pattern(400 << 10)
		n, err := c.Writev([][]byte{b})
		if err != nil || n != firstWindow+defaultSendBuffer || c.Acked() != firstWindow {
			t.Fatalf("%d written, %v, %d acknowledged", n, err, c.Acked())
		}
		if _, err := io.ReadFull(p, make([]byte, n)); err != nil {
			t.Fatal(err)
		}
		<-h.Writables
		if c.Acked() != uint64(n) {
			t.Errorf("%d acknowledged", c.Acked())
		}
	})
}

// gate admits one host.
type gate struct{ friend netip.Addr }

func (g gate) Admits(a netip.Addr) bool { return a == g.friend }
func (g gate) Allows(a netip.Addr) bool { return a == g.friend }
func (g gate) Listed(a netip.Addr) bool { return false }

func TestGate(t *testing.T) {
	friend := netip.MustParseAddr("10.0.0.1")
	bubble(t, Options{}, gnetloop.Options{Gate: gate{friend}}, func(t *testing.T, r *rig) {
		p, err := r.net.Dial(at(other, 0), r.addr)
		if err == nil {
			_, err = p.Read(make([]byte, 1))
		}
		if !errors.Is(err, syscall.ECONNRESET) || len(r.accepted) != 0 {
			t.Errorf("a stranger's connection: %v", err)
		}
		if _, err := r.net.Dial(at(friend, 0), r.addr); err != nil {
			t.Fatal(err)
		}
		if c := <-r.accepted; c.RemoteAddr().Addr() != friend || c.Here() || c.MSS() != mssThere {
			t.Errorf("accepted %v", c.RemoteAddr())
		}
		if _, err := r.stack.Dial(t.Context(), netip.AddrPort{}, r.addr); !errors.Is(err, transport.ErrNotAllowed) {
			t.Errorf("Dial of a stranger: %v", err)
		}
	})
}

// Paused listeners accept nothing; Unlisten offers what was connected, and no more.
func TestPauseAndUnlisten(t *testing.T) {
	bubble(t, Options{}, gnetloop.Options{}, func(t *testing.T, r *rig) {
		r.stack.Pause()
		for range 3 {
			p, err := r.net.Dial(netip.AddrPort{}, r.addr)
			streamtest.Must(t, err)
			r.write(p, []byte{1})
		}
		synctest.Wait()
		if len(r.accepted) != 0 {
			t.Error("accepted while paused")
		}
		r.stack.Resume()
		for range 3 {
			<-r.accepted
		}
		r.stack.Pause()
		if _, err := r.net.Dial(netip.AddrPort{}, r.addr); err != nil {
			t.Fatal(err)
		}
		r.stack.Unlisten()
		if len(r.accepted) != 1 {
			t.Error("what was connected is not offered")
		}
		if _, err := r.net.Dial(netip.AddrPort{}, r.addr); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("Dial: %v", err)
		}
	})
}

// Close returns when every handler has heard the end, also of a stack that is being used.
func TestStackClose(t *testing.T) {
	bubble(t, Options{}, gnetloop.Options{}, func(t *testing.T, r *rig) {
		s := r.open(gnetloop.Options{})
		var hs []*streamtest.Recorder
		var wg sync.WaitGroup
		for range 5 {
			a, err := s.Dial(t.Context(), netip.AddrPort{}, r.addr)
			streamtest.Must(t, err)
			b, ha, hb := <-r.accepted, streamtest.NewRecorder(t), streamtest.NewRecorder(t)
			r.start(a, ha)
			r.start(b, hb)
			hs = append(hs, ha)
			wg.Go(func() {
				for {
					n, err := a.Writev([][]byte{make([]byte, 3000)})
					if err != nil {
						return
					}
					if n < 3000 {
						select {
						case <-ha.Writables:
						case cause := <-ha.Ended:
							ha.Ended <- cause
							return
						}
					}
					a.Wake()
				}
			})
		}
		if err := errors.Join(s.Close(), s.Close()); err != nil {
			t.Error(err)
		}
		for _, h := range hs {
			if len(h.Ended) != 1 {
				t.Error("a handler has not heard Closed")
			}
		}
		wg.Wait()
		if _, err := s.Dial(t.Context(), netip.AddrPort{}, r.addr); !errors.Is(err, transport.ErrClosed) {
			t.Errorf("Dial: %v", err)
		}
		if _, err := s.Listen(at(host, 0), nil); err == nil {
			t.Error("Listen of a closed stack")
		}
	})
}

// The sockets of tests keep deadlines, and wait for each other.
func TestConn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(Options{})
		ln, err := n.Listen(at(host, 0))
		streamtest.Must(t, err)
		_ = ln.SetDeadline(time.Now().Add(time.Second))
		if _, err := ln.Accept(); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Accept: %v", err)
		}
		_ = ln.SetDeadline(time.Time{})
		accepted := make(chan net.Conn, 1)
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					close(accepted)
					return
				}
				accepted <- c
			}
		}()
		a, err := n.Dial(netip.AddrPort{}, ln.Addr().(*net.TCPAddr).AddrPort())
		streamtest.Must(t, err)
		b := <-accepted
		_ = a.SetDeadline(time.Now().Add(time.Second))
		begin := time.Now()
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) != time.Second {
			t.Errorf("Read: %v after %v", err, time.Since(begin))
		}
		if _, err := a.Write([]byte{1}); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Write: %v", err)
		}
		_ = a.SetDeadline(time.Time{})
		want := streamtest.Pattern(3 << 20)
		go func() { _, _ = a.Write(want); _ = a.CloseWrite() }()
		if got, err := io.ReadAll(b); err != nil || string(got) != string(want) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		if _, err := a.Write([]byte{1}); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("Write after CloseWrite: %v", err)
		}
		read := make(chan error, 1)
		go func() {
			_, err := a.Read(make([]byte, 1))
			read <- err
		}()
		synctest.Wait()
		_ = a.Close()
		if err := <-read; !errors.Is(err, net.ErrClosed) {
			t.Errorf("Read while closing: %v", err)
		}
		_, _ = b.Write([]byte{1})
		if _, err := b.Write([]byte{1}); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
			t.Errorf("Write to a closed socket: %v", err)
		}
		_ = ln.Close()
		<-accepted
	})
}
