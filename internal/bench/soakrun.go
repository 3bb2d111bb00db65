package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/rds-go/rds/rds"
)

// soakAttach is how long a new process tries to get its predecessor's place.
const soakAttach = 10 * time.Second

// soakDrain bounds the wait for fates and replies at the end. A connection that is cut
// while it is set up may be tried again only when the attempt has timed out.
const soakDrain = 40 * time.Second

// soakRun is the parent of a soak's processes.
type soakRun struct {
	r       *Runner
	w       *Work
	dir     string // directory of the journals
	port    uint16
	rng     *rand.Rand
	soft    context.Context
	hard    context.Context
	lose    context.CancelCauseFunc
	crew    [2][]*child   // processes of each side; nil while there is none
	process uint64        // number of the last process started
	told    chan struct{} // gets a value when a server's socket has told of a life
	acct    account

	mu    sync.Mutex // guards the rest
	peers []soakPeer
	hosts uint64   // generations of the server's daemon
	ready []*child // clients that are to hear of peers
}

// soak runs processes that are killed, and daemons that are restarted.
func (r *Runner) soak(ctx context.Context, w *Work) (row *Row, err error) {
	r.progress(w, RDS)
	hard, lose := context.WithCancelCause(context.Background())
	defer lose(nil)
	s := &soakRun{r: r, w: w, soft: ctx, hard: hard, lose: lose, rng: rand.New(rand.NewPCG(w.Seed, 3)), hosts: 1, told: make(chan struct{}, 1)}
	for i := range s.crew {
		s.crew[i] = make([]*child, w.Processes)
	}
	if s.dir, err = os.MkdirTemp("", "rdsbench"); err != nil {
		return nil, err
	}
	defer os.RemoveAll(s.dir)
	limit := r.Options.Warmup + r.Options.Duration + soakAttach + 2*soakDrain
	stalled := time.AfterFunc(limit, func() { lose(fmt.Errorf("the run has not ended after %v", limit)) })
	defer stalled.Stop()
	stop := context.AfterFunc(hard, s.kill) // kills the processes, so that no call waits
	defer stop()
	res, err := s.run()
	s.end()
	if cause := context.Cause(hard); cause != nil {
		err = cause
	}
	if err != nil {
		return nil, err
	}
	result := newRow(*w, map[Transport][]Result{RDS: {res}})
	result.Finished = ctx.Err() == nil
	return &result, nil
}

// run starts everything, disturbs it for the measured time, and looks at what there is.
func (s *soakRun) run() (Result, error) {
	if err := s.begin(); err != nil {
		return Result{}, err
	}
	start := time.Now()
	if err := s.disturb(start.Add(s.r.Options.Warmup + s.r.Options.Duration)); err != nil {
		return Result{}, err
	}
	elapsed := time.Since(start)
	if s.attached() && s.soft.Err() == nil { // a client that has lost the daemon has told so before anybody is judged
		if err := s.await(func(p soakPeer) bool { return p.Host == s.hosts }); err != nil {
			return Result{}, err
		}
	}
	for _, all := range []side{clientSide, serverSide} {
		if _, err := children(s.crew[all]).call(func(int) request { return request{Op: opStop} }); err != nil {
			return Result{}, err
		}
	}
	check, err := s.check()
	if err != nil {
		return Result{}, err
	}
	check.acct.add(&s.acct)
	n := check.acct.Exchanges // the CPU time of those that were killed is not known: none is told
	return Result{Seconds: elapsed.Seconds(), Messages: n, Rate: float64(n) / elapsed.Seconds(), Account: &check.acct}, nil
}

// begin starts the daemons, if there are to be any, the servers, and then the clients.
func (s *soakRun) begin() error {
	var ips []netip.Addr
	if s.attached() {
		var err error
		if s.r.daemons, err = s.r.startDaemons(); err != nil {
			return err
		}
		s.r.daemons.watch(s.lose)
		s.port = s.r.daemons.port
	} else {
		for i := range s.w.Processes {
			ips = append(ips, s.ip(clientSide, i), s.ip(serverSide, i))
		}
		var err error
		if s.port, err = freePort(s.r.Options.Port, ips...); err != nil {
			return err
		}
	}
	s.peers = make([]soakPeer, s.w.Processes*s.w.Peers)
	for i := range s.peers {
		s.peers[i] = soakPeer{Socket: i, Addr: netip.AddrPortFrom(s.ip(serverSide, i/s.w.Peers), uint16(soakRDSPort+i))}
	}
	for _, all := range []side{serverSide, clientSide} {
		for i := range s.w.Processes {
			if err := s.start(all, i); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *soakRun) attached() bool { return s.r.Options.Provider == rds.ProviderDaemon }

// ip is where a process is: with its side's daemon, or a host by itself.
func (s *soakRun) ip(all side, i int) netip.Addr {
	switch {
	case s.attached():
		return s.r.ip(all)
	case all == clientSide:
		return appHost(i)
	}
	return netip.AddrFrom4([4]byte{127, 0, 4, byte(i + 1)})
}

// start starts process i of a side.
func (s *soakRun) start(all side, i int) error {
	name := []string{"client", "server"}[all]
	c, err := s.r.startOn(fmt.Sprintf("%s %d", name, i), all, s.ip(all, i))
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.crew[all][i] = c
	s.mu.Unlock()
	if s.hard.Err() != nil {
		c.kill()
	}
	c.listen(s.learn)
	c.watch(s.lose)
	h := s.r.hello(s.port)
	h.Reconnect, h.Attach = true, soakAttach
	if s.attached() {
		h.Socket = s.r.daemons.socket(all)
	}
	if _, err := c.call(request{Op: opHello, Hello: h}); err != nil {
		return err
	}
	s.process++
	spec := &soakSpec{Work: s.w, Server: all == serverSide, Index: i, Process: s.process, Journal: s.dir, Attach: soakAttach}
	if all == clientSide {
		spec.Peers = s.known()
	}
	if _, err := c.call(request{Op: opSoak, Soak: spec}); err != nil {
		return err
	}
	if all == serverSide {
		return s.await(func(p soakPeer) bool { return p.Socket/s.w.Peers != i || p.Life>>lifeBits == s.process })
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = append(s.ready, c)
	for i := range s.peers { // the peers that the child was started with may be out of date
		_ = c.lines.write(request{Op: opPeer, Peer: &s.peers[i]}) // whoever has ended is found out otherwise
	}
	return nil
}

func (s *soakRun) known() []soakPeer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]soakPeer(nil), s.peers...)
}

// await waits until the server's sockets that present does not hold for have told of
// their lives.
func (s *soakRun) await(present func(soakPeer) bool) error {
	limit := time.NewTimer(soakAttach)
	defer limit.Stop()
	for {
		i := slices.IndexFunc(s.known(), func(p soakPeer) bool { return !present(p) })
		if i < 0 {
			return nil
		}
		select {
		case <-s.told:
		case <-s.hard.Done():
			return context.Cause(s.hard)
		case <-limit.C:
			return fmt.Errorf("server socket %d does not serve again after %v", i, soakAttach)
		}
	}
}

// learn takes what a server tells of a socket's life, and passes it on.
func (s *soakRun) learn(p soakPeer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.Socket < 0 || p.Socket >= len(s.peers) || p.Life <= s.peers[p.Socket].Life {
		return
	}
	if p.Host = s.hosts; !s.attached() {
		p.Host = p.Life >> lifeBits
	}
	s.peers[p.Socket] = p
	select {
	case s.told <- struct{}{}:
	default:
	}
	for _, c := range s.ready {
		_ = c.lines.write(request{Op: opPeer, Peer: &p})
	}
}

// check reads the journals.
func (s *soakRun) check() (*soakCheck, error) {
	c := newSoakCheck()
	var errs []error
	each := func(server bool, n int, take func(i int, j *journal) error) {
		for i := range n {
			j, err := openJournal(journalName(s.dir, server, i))
			if err == nil {
				err = errors.Join(take(i, j), j.unmap())
			}
			errs = append(errs, err)
		}
	}
	each(false, s.w.soakSockets(), func(i int, j *journal) error { return c.client(i, s.w.Depth, j) })
	each(true, len(s.peers), func(i int, j *journal) error { return c.server(i, j, !s.attached()) })
	return c, errors.Join(append(errs, c.additions())...)
}

// kill kills all processes, in a run that is lost.
func (s *soakRun) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, all := range s.crew {
		for _, c := range all {
			if c != nil {
				c.kill()
			}
		}
	}
	if d := s.r.daemons; d != nil {
		for _, c := range d.side {
			c.kill()
		}
	}
}

// end ends all processes.
func (s *soakRun) end() {
	s.mu.Lock()
	var all children
	for _, cs := range s.crew {
		for _, c := range cs {
			if c != nil {
				all = append(all, c)
			}
		}
	}
	s.mu.Unlock()
	_ = all.end() // The outcome of the run is known.
	if d := s.r.daemons; d != nil {
		d.watch(nil)
	}
}
