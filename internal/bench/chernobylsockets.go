package bench

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/rds-go/rds/rds"
)

// The token of a socket's operation, of which it has one under way.
const socketToken = 1

// socketRounds is the number of times with the rogue, of a run with sockets.
const socketRounds = 15

// socketLevel is a run with sockets, which share a connection.
type socketLevel struct {
	r     *chernobylRun
	all   []*socketPlace // the last is the rogue's
	reset uint64         // connections that had ended before the run
}

// socketPlace is a socket of the client and the region it uses, of a socket of its
// own on the server. One goroutine uses it.
type socketPlace struct {
	r      *chernobylRun
	index  int
	s      *rds.Socket
	to     netip.AddrPort
	cookie rds.Cookie
	local  *rds.Memory // memory that writes copy from and reads copy to
}

func (r *chernobylRun) openSockets() (level, func(), error) {
	l := &socketLevel{r: r}
	var open ends
	for i := range r.c.work.Workers + 1 {
		s, end, err := r.c.bind()
		if err != nil {
			open.close()
			return nil, nil, err
		}
		open.add(end)
		w := &socketPlace{r: r, index: i, s: s, to: r.c.addrs[i], cookie: rds.Cookie(r.c.keys[i])}
		if w.local, err = s.AllocMemory(2 * r.c.work.Size); err != nil {
			open.close()
			return nil, nil, err
		}
		l.all = append(l.all, w)
	}
	var err error
	l.reset, err = l.resets()
	if err != nil {
		open.close()
	}
	return l, open.close, err
}

func (l *socketLevel) rounds() int { return socketRounds }

func (l *socketLevel) ports() (all []placePort) {
	for _, w := range l.all[:len(l.all)-1] {
		all = append(all, w)
	}
	return all
}

// resets is how many connections have ended so far.
func (l *socketLevel) resets() (uint64, error) {
	info, err := l.r.c.provider().Info()
	if err != nil {
		return 0, err
	}
	return counterOf(&info, "conn_reset")
}

// operation is one on the place of operation n, with or without a message behind it.
func (w *socketPlace) operation(n uint64, local []byte, write bool, note []byte) error {
	return w.s.SendMessage(w.r.ctx, &rds.Outgoing{
		To: w.to, Data: note, Notify: true, Token: socketToken,
		RDMA: &rds.RDMA{Cookie: w.cookie, Offset: n % places * uint64(len(local)), Local: [][]byte{local}, Write: write, Silent: note == nil},
	})
}

// write is over when the server has seen what was written and the message, and the fate has come.
func (w *socketPlace) write(n uint64) error {
	local := w.local.B[:w.r.c.work.Size]
	fillPattern(local, placeSeed(w.index, n))
	var note [messageSize]byte
	putMessage(note[:], w.index, n)
	if err := w.operation(n, local, true, note[:]); err != nil {
		return err
	}
	for fate, answer := false, false; !fate || !answer; {
		m, err := w.s.Recv(w.r.ctx)
		if err != nil {
			return err
		}
		if m.Kind == rds.KindStatus {
			fate, err = true, succeeded(&m)
		} else {
			answer, err = true, answered(m.Data, w.index, n)
		}
		m.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *socketPlace) reads() bool { return true }

func (w *socketPlace) read(n uint64) error {
	b := w.local.B[w.r.c.work.Size:][:w.r.c.work.Size]
	clear(b)
	if err := w.operation(n, b, false, nil); err != nil {
		return err
	}
	m, err := w.s.Recv(w.r.ctx)
	if err == nil {
		err = succeeded(&m)
		m.Release()
	}
	if err != nil {
		return err
	}
	return checkPattern(b, placeSeed(w.index, n))
}

func succeeded(m *rds.Message) error {
	if m.Kind != rds.KindStatus || m.Token != socketToken || m.Status != rds.StatusSuccess {
		return fmt.Errorf("the operation has ended with %v", m)
	}
	return nil
}

// answered checks the server's answer.
func answered(b []byte, index int, n uint64) error {
	worker, number, err := parseMessage(b)
	if err == nil && (worker != uint64(index) || number != n) {
		err = fmt.Errorf("answer %d to %d came where %d was due", number, worker, n)
	}
	return err
}

// provoke sends bad requests: without the right, with a stale key, beyond the end of the
// region, which is to be read only, and messages that build on writes. Each of them has to
// be refused, or not to begin since others were.
func (l *socketLevel) provoke() (refused uint64, err error) {
	w := l.all[len(l.all)-1]
	size := l.r.c.work.Size
	local := [][]byte{w.local.B[:size]}
	stale, beyond := w.cookie^1, uint64((places-1)*size+1)
	note := make([]byte, messageSize)
	bad := []rds.Outgoing{
		{Data: note, RDMA: &rds.RDMA{Cookie: w.cookie, Local: local, Write: true}},
		{Data: note, RDMA: &rds.RDMA{Cookie: stale, Local: local, Write: true}},
		{RDMA: &rds.RDMA{Cookie: stale, Local: local, Silent: true}},
		{RDMA: &rds.RDMA{Cookie: w.cookie, Offset: beyond, Local: local, Silent: true}},
		{RDMA: &rds.RDMA{Cookie: stale, Local: local, Write: true, Silent: true}},
	}
	for i := range bad {
		bad[i].To, bad[i].Notify, bad[i].Token = w.to, true, uint64(i)
	}
	if n, err := w.s.SendBatch(l.r.ctx, bad); err != nil {
		return 0, fmt.Errorf("rogue, after %d: %w", n, err)
	}
	ended := make([]bool, len(bad)) // operations that have ended, in whatever order
	for range bad {
		m, err := w.s.Recv(l.r.ctx)
		if err != nil {
			return refused, fmt.Errorf("rogue: %w", err)
		}
		if m.Kind != rds.KindStatus || m.Token >= uint64(len(bad)) || ended[m.Token] || m.Status != rds.StatusRemoteError && m.Status != rds.StatusAgain {
			return refused, fmt.Errorf("a bad request was not refused: %v", &m)
		}
		ended[m.Token] = true
		m.Release()
		if m.Status == rds.StatusRemoteError {
			refused++
		}
	}
	if refused == 0 {
		time.Sleep(time.Millisecond) // the requests may be tried a little later
	}
	return refused, nil
}

// confirm: the server has as many messages as were answered, and the connection is the one
// that was there before.
func (l *socketLevel) confirm(res *Result, writes uint64) error {
	now, err := l.resets()
	if err != nil {
		return err
	}
	res.Thirds.Cut, res.TCPConns = now-l.reset, l.r.c.rdsConns()
	if res.Thirds.Cut != 0 || res.TCPConns != 1 {
		return fmt.Errorf("%d connections were cut, %d are there", res.Thirds.Cut, res.TCPConns)
	}
	_, err = l.r.c.ask(request{Op: opConfirm, Count: writes})
	return err
}
