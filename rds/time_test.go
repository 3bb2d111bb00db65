//go:build !live

package rds

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rds-go/rds/internal/rdstest"
)

// Deadlines and contexts, on simulated time.

func TestReadDeadlineMovesWhileBlocked(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		s := newLoopLab(t).bindOne(Config{})
		start := time.Now()
		_ = s.SetReadDeadline(start.Add(time.Second))
		got := make(chan error)
		go func() { _, _, err := s.ReadFromAddrPort(nil); got <- err }()
		synctest.Wait()
		_ = s.SetReadDeadline(start.Add(time.Hour))                                               // later
		time.AfterFunc(time.Minute, func() { _ = s.SetReadDeadline(start.Add(time.Minute * 2)) }) // earlier again
		rdstest.WantErr(t, "read", <-got, os.ErrDeadlineExceeded)
		if d := time.Since(start); d != 2*time.Minute {
			t.Errorf("after %v", d)
		}
		_ = s.SetReadDeadline(time.Time{})
		time.AfterFunc(time.Hour, func() { _ = s.TrySend(s.LocalAddrPort(), []byte("x")) })
		if _, _, err := s.ReadFromAddrPort(nil); err != nil {
			t.Error(err)
		}
	})
}

func TestWriteDeadline(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		s := newLoopLab(t).bindOne(Config{SendBuffer: 10})
		to := rdstest.Nowhere()
		start := time.Now()
		_ = s.SetDeadline(start.Add(time.Second))
		rdstest.MustSend(t, s, to, make([]byte, 10))
		_, err := s.WriteToAddrPort([]byte("x"), to)
		rdstest.WantErr(t, "write", err, os.ErrDeadlineExceeded)
		var ne net.Error
		if !errors.As(err, &ne) || !ne.Timeout() || time.Since(start) != time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		rdstest.WantErr(t, "Send", s.Send(context.Background(), to, nil), os.ErrDeadlineExceeded)
		k, err := s.SendBatch(context.Background(), []Outgoing{{To: to}})
		rdstest.WantErr(t, "SendBatch", err, os.ErrDeadlineExceeded)
		_, err = s.Recv(context.Background())
		rdstest.WantErr(t, "Recv", err, os.ErrDeadlineExceeded)
		if k != 0 {
			t.Errorf("%d sent", k)
		}
		rdstest.Must(t, s.CancelSentTo(to))
		if err := s.Send(context.Background(), to, []byte("x")); err != nil { // it blocks on nothing
			t.Errorf("with room: %v", err)
		}
	})
}

func TestContextEndsRecv(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		s := newLoopLab(t).bindOne(Config{})
		start := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_, err := s.Recv(ctx)
		rdstest.WantErr(t, "Recv", err, context.DeadlineExceeded)
		var ne net.Error
		if !errors.As(err, &ne) || !ne.Timeout() || time.Since(start) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		_, err = s.RecvBatch(ctx, make([]Message, 2))
		rdstest.WantErr(t, "RecvBatch", err, context.DeadlineExceeded)
		// What is there is delivered all the same.
		rdstest.MustSend(t, s, s.LocalAddrPort(), []byte("x"))
		synctest.Wait()
		if m, err := s.Recv(ctx); err != nil || string(m.Data) != "x" {
			t.Error(err)
		}
	})
}

func TestCloseLingersBounded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ config, option, want time.Duration }{
		{0, 0, DefaultLinger},
		{time.Minute, 0, time.Minute},
		{time.Minute, time.Second, time.Second},
		{time.Minute, -1, 0},
		{-1, 0, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := newLoopLab(t)
			n, err := NewNode(Config{Transport: l.Net.Transport(), Linger: c.config})
			rdstest.Must(t, err)
			s := l.bind(n)
			if c.option != 0 {
				s.SetLinger(c.option)
			}
			rdstest.MustSend(t, s, rdstest.Nowhere(), make([]byte, 100))
			rdstest.MustSend(t, s, rdstest.Nowhere(), make([]byte, 20))
			start := time.Now()
			err = s.Close()
			var d *DroppedError
			if !errors.As(err, &d) || *d != (DroppedError{Messages: 2, Bytes: 120}) {
				t.Errorf("%+v: %v", c, err)
			}
			if took := time.Since(start); took != c.want {
				t.Errorf("%+v: closed in %v", c, took)
			}
			if err := n.Close(); err != nil {
				t.Errorf("%+v: %v", c, err)
			}
		})
	}
}

func TestCloseWaitsForAcknowledgement(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		l := newLoopLab(t)
		s := l.bindOne(Config{Linger: time.Hour})
		to := rdstest.Nowhere()
		rdstest.MustSend(t, s, to, []byte("late"))
		done := make(chan error, 1)
		go func() { done <- s.Close() }()
		received := make(chan struct{})
		time.AfterFunc(time.Minute, func() {
			defer close(received)
			d := l.bind(l.node(Config{}), to)
			rdstest.Expect(t, d, "late")
		})
		start := time.Now()
		rdstest.NoError(t, <-done)
		if d := time.Since(start); d < time.Minute || d > time.Minute+2*time.Second {
			t.Errorf("after %v", d)
		}
		<-received
	})
}

func TestNodeCloseReportsAndJoins(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		l := newLoopLab(t)
		n, err := NewNode(Config{Transport: l.Net.Transport(), Linger: time.Second})
		rdstest.Must(t, err)
		a, b := l.bind(n), l.bind(n)
		rdstest.MustSend(t, a, rdstest.Nowhere(), make([]byte, 5))
		rdstest.MustSend(t, b, rdstest.Nowhere(), make([]byte, 6))
		rdstest.MustSend(t, b, rdstest.Nowhere(), nil)
		start := time.Now()
		err = n.Close()
		var d *DroppedError
		if !errors.As(err, &d) || *d != (DroppedError{Messages: 3, Bytes: 11}) {
			t.Error(err)
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("lingered %v", took)
		}
		rdstest.WantErr(t, "second Close", n.Close(), net.ErrClosed)
		if _, err := n.Info(); err != nil {
			t.Errorf("Info: %v", err)
		}
		// The bubble ends only when every goroutine of the node has.
	})
}
