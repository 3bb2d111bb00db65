package tcp

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/transport"
)

// Writev writes from the caller's goroutine straight to the socket.
func (l *link) Writev(bufs [][]byte) (int, error) {
	if !l.acquire() {
		return 0, transport.ErrClosed
	}
	n, err := l.writev(bufs)
	l.put()
	return n, err
}

func (l *link) writev(bufs [][]byte) (int, error) {
	if l.quiet.Load() {
		return 0, transport.ErrClosed
	}
	n, full, errno := l.io.writev(l.fd, bufs)
	if n > 0 {
		l.written.Add(uint64(n))
	}
	switch {
	case errno != 0 && errno != unix.EAGAIN:
		if l.quiet.Load() {
			return 0, transport.ErrClosed // Close was faster
		}
		err := os.NewSyscallError("writev", errno)
		l.fail(err)
		return 0, err
	case full:
		l.t.sndbufFull.Add(1)
		if err := l.t.poll.arm(l); err != nil {
			l.fail(err)
			return n, err
		}
	}
	return n, nil
}

// Acked returns the bytes written minus those the socket still keeps
// (SIOCOUTQ), which are the ones the peer's TCP has not acknowledged. After we
// have ended our direction one byte too few is reported, for the FIN.
func (l *link) Acked() uint64 {
	if !l.acquire() {
		return l.acked.Load()
	}
	n := l.measure()
	l.put()
	return n
}

// measure takes a reading. Written is read first: what is written meanwhile
// then makes the result smaller, never larger.
func (l *link) measure() uint64 {
	written := l.written.Load()
	kept, errno := outq(l.fd)
	if errno == 0 && kept < written {
		n := written - kept
		for old := l.acked.Load(); n > old && !l.acked.CompareAndSwap(old, n); old = l.acked.Load() {
		}
	}
	return l.acked.Load()
}
