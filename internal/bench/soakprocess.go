package bench

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rds-go/rds/rds"
)

// soakProcess is what a process of a soak runs.
type soakProcess struct {
	spec     *soakSpec
	attached bool // the process is attached to a daemon
	tell     func(soakPeer)
	ctx      context.Context // ends servers at the end, and everybody when the run is lost
	cancel   context.CancelFunc
	stopping atomic.Bool

	exchanges atomic.Uint64 // exchanges of all clients that have ended

	clients []*soakClient
	socks   []*rds.Socket
	open    []*journal
	wg      sync.WaitGroup
	mu      sync.Mutex // guards err
	err     error      // the first error
}

// startSoak binds the process's sockets and has them work. What ends one too early goes
// to fail.
func startSoak(p rds.Provider, ip netip.Addr, spec *soakSpec, attached bool, tell func(soakPeer), fail func(error)) (*soakProcess, error) {
	w := spec.Work
	k := &soakProcess{spec: spec, attached: attached, tell: tell}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	n := w.Sockets
	if spec.Server {
		n = w.Peers
	}
	var works []func() error
	for i := range n {
		socket := spec.Index*n + i
		work, err := k.add(p, ip, socket)
		if err != nil {
			return nil, errors.Join(err, k.end())
		}
		works = append(works, work)
	}
	for _, work := range works {
		k.wg.Go(func() {
			if err := work(); err != nil && k.ctx.Err() == nil {
				k.mu.Lock()
				k.err = errors.Join(k.err, err)
				k.mu.Unlock()
				fail(err)
			}
		})
	}
	return k, nil
}

// add binds a socket and opens its journal.
func (k *soakProcess) add(p rds.Provider, ip netip.Addr, socket int) (work func() error, err error) {
	at := netip.AddrPortFrom(ip, 0)
	if k.spec.Server && k.spec.Work.mortal() { // a successor has to have the same address
		at = netip.AddrPortFrom(ip, uint16(soakRDSPort+socket))
	}
	s, err := k.bind(p, at)
	if err != nil {
		return nil, err
	}
	k.socks = append(k.socks, s)
	j := newJournal(journalHead + 2*maxSoakLanes*journalRecord + journalLanes)
	if k.spec.Journal != "" {
		if j, err = openJournal(journalName(k.spec.Journal, k.spec.Server, socket)); err != nil {
			return nil, err
		}
	}
	k.open = append(k.open, j)
	if k.spec.Server {
		return newSoakServer(k, s, socket, j).work, nil
	}
	c := newSoakClient(k, s, socket, j)
	k.clients = append(k.clients, c)
	return c.work, nil
}

// bind binds a socket, again and again as long as the predecessor of this process, which
// was killed, is not quite gone.
func (k *soakProcess) bind(p rds.Provider, at netip.AddrPort) (*rds.Socket, error) {
	for limit := time.Now().Add(k.spec.Attach); ; {
		s, err := p.Bind(at)
		if err == nil || time.Now().After(limit) {
			return s, err
		}
		time.Sleep(time.Millisecond)
	}
}

// learn passes on what is new of a server socket.
func (k *soakProcess) learn(p soakPeer) {
	for _, c := range k.clients {
		c.tell(p)
	}
}

// stop ends the process when all that is under way is accounted for. It returns the journals
// that are in no files.
func (k *soakProcess) stop() (told [][]byte, err error) {
	k.stopping.Store(true)
	if k.spec.Server {
		k.cancel()
	}
	late := time.AfterFunc(soakDrain, k.cancel)
	k.wg.Wait()
	if !late.Stop() {
		err = fmt.Errorf("verify: process %d: fates or replies are missing after %v", k.spec.Index, soakDrain)
		for _, c := range k.clients {
			err = errors.Join(err, c.missing())
		}
	}
	k.mu.Lock()
	err = errors.Join(k.err, err)
	k.mu.Unlock()
	if k.spec.Journal == "" {
		for _, j := range k.open {
			told = append(told, j.told())
		}
	}
	return told, errors.Join(err, k.end())
}

// end closes everything.
func (k *soakProcess) end() error {
	k.cancel()
	var wg sync.WaitGroup
	for _, s := range k.socks {
		wg.Go(func() { s.Close() })
	}
	wg.Wait()
	k.wg.Wait()
	var errs []error
	for _, j := range k.open {
		errs = append(errs, j.unmap())
	}
	k.socks, k.open = nil, nil
	return errors.Join(errs...)
}

// lost is the error of a call about memory: that there is no daemon now is ErrWouldBlock.
func (k *soakProcess) lost(err error) error {
	if errors.Is(err, rds.ErrWouldBlock) && k.attached {
		return fmt.Errorf("%w: %w", rds.ErrDaemonLost, err)
	}
	return err
}
