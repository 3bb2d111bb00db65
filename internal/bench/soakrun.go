package bench

import (
	"cmp"
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
	crew    [2]children   // processes of each side; nil while there is none
	process uint64        // number of the last process started
	told    chan struct{} // gets a value when a server's socket has told of a life
	acct    account

	mu    sync.Mutex // guards the rest
	peers []soakPeer
	hosts uint64   // generations of the server's daemon
	ready []*child // clients that are to hear of peers
}

// soak makes a run of a Stress with operations, with processes of its own.
func (r *Runner) soak(ctx context.Context, w *Work) (res Result, err error) {
	if err = r.endProcesses(); err == nil {
		res, err = r.soakOnce(ctx, w)
	}
	return res, errors.Join(err, r.endProcesses())
}

func (r *Runner) soakOnce(ctx context.Context, w *Work) (res Result, err error) {
	hard, lose := context.WithCancelCause(context.Background())
	defer lose(nil)
	s := &soakRun{r: r, w: w, soft: ctx, hard: hard, lose: lose, rng: rand.New(rand.NewPCG(w.Seed, 3)), hosts: 1, told: make(chan struct{}, 1)}
	s.crew[clientSide], s.crew[serverSide] = make(children, w.clients()), make(children, w.servers())
	if s.dir, err = os.MkdirTemp("", "rdsbench"); err != nil {
		return res, err
	}
	defer os.RemoveAll(s.dir)
	limit := r.Options.Warmup + r.Options.Duration + soakAttach + 2*soakDrain
	stalled := time.AfterFunc(limit, func() { lose(fmt.Errorf("the run has not ended after %v", limit)) })
	defer stalled.Stop()
	stop := context.AfterFunc(hard, s.kill) // kills the processes, so that no call waits
	defer stop()
	res, err = s.run()
	s.end()
	if cause := context.Cause(hard); cause != nil {
		err = cause
	}
	return res, err
}

// run starts everything, disturbs it for the measured time, and looks at what there is.
func (s *soakRun) run() (res Result, err error) {
	if err := s.begin(); err != nil {
		return res, err
	}
	o := &s.r.Options
	start, warmup := time.Now(), o.Warmup
	var client, server [2]snapshot // when the measured time begins and ends; all of the run counts if processes are killed
	if !s.w.mortal() {
		(&cell{soft: s.soft, hard: s.hard}).sleep(warmup)
		if client[0], server[0], err = s.snaps(); err != nil {
			return res, err
		}
		start, warmup = time.Now(), 0
	}
	if err := s.disturb(start.Add(warmup + o.Duration)); err != nil {
		return res, err
	}
	elapsed := time.Since(start)
	if !s.w.mortal() {
		if client[1], server[1], err = s.snaps(); err != nil {
			return res, err
		}
	} else if s.attached() && s.soft.Err() == nil { // a client that has lost the daemon has told so before anybody is judged
		if err := s.await(func(p soakPeer) bool { return p.Host == s.hosts }); err != nil {
			return res, err
		}
	}
	var journals [][]byte
	for at := range s.crew {
		stopped, err := s.crew[at].call(func(int) request { return request{Op: opStop} })
		if err != nil {
			return res, err
		}
		journals = stopped[0].Journals
	}
	check, err := s.check(journals)
	if err != nil {
		return res, err
	}
	check.acct.add(&s.acct)
	res = meter{server: server[0]}.result(elapsed, client[1].CPU-client[0].CPU, server[1], check.acct.Exchanges-client[0].Count, 0)
	res.Account, res.TCPConns = &check.acct, max(client[0].Conns, client[1].Conns) // a connection may have been cut a moment ago
	return res, nil
}

// snaps is what each side has used and done so far.
func (s *soakRun) snaps() (client, server snapshot, err error) {
	for at, to := range []*snapshot{&client, &server} {
		all, e := s.crew[at].call(func(int) request { return request{Op: opSnap} })
		err = errors.Join(err, e)
		to.CPU = s.r.daemons.cpu(side(at))
		for i := range all {
			to.add(&all[i].Snap)
			if s.attached() { // to daemons, whose connections are told by each
				to.Conns = all[i].Snap.Conns
			}
		}
	}
	return client, server, err
}

// begin starts the daemons, if there are to be any, the servers, and then the clients.
func (s *soakRun) begin() (err error) {
	s.r.pin = cmp.Or(s.w.Pin, PinNone)
	switch {
	case s.r.Options.Server != "": // the port is chosen with the server's address
	case s.attached():
		if s.r.daemons, err = s.r.startDaemons(); err != nil {
			return err
		}
		s.r.daemons.watch(s.lose)
		s.port = s.r.daemons.port
	default:
		var ips []netip.Addr
		for at := range s.crew {
			for i := range s.crew[at] {
				ips = append(ips, s.ip(side(at), i))
			}
		}
		if s.port, err = freePort(s.r.Options.Port, ips...); err != nil {
			return err
		}
	}
	s.peers = make([]soakPeer, s.w.servers()*s.w.Peers)
	for i := range s.peers {
		s.peers[i].Socket = i
	}
	for _, all := range []side{serverSide, clientSide} {
		for i := range s.crew[all] {
			if err := s.start(all, i); err != nil {
				return err
			}
		}
	}
	return s.r.pinSelf()
}

func (s *soakRun) attached() bool { return s.r.Options.Provider == rds.ProviderDaemon }

// ip is where a process is: with its side's daemon, or a host by itself.
func (s *soakRun) ip(all side, i int) netip.Addr {
	switch {
	case s.attached() || all == clientSide && s.w.Processes == 0 || all == serverSide && !s.w.mortal():
		return s.r.ip(all)
	case all == clientSide:
		return appHost(i)
	}
	return netip.AddrFrom4([4]byte{127, 0, 4, byte(i + 1)})
}

// open starts process i of a side, or reaches the server that runs. A client that nobody
// kills may be this process.
func (s *soakRun) open(all side, i int) (*child, error) {
	switch o := &s.r.Options; {
	case all == clientSide && s.w.Processes == 0:
		return s.r.local(s.ip(all, i), &session{}), nil
	case all == clientSide:
		return s.r.startOn(fmt.Sprintf("client %d", i), all, s.ip(all, i))
	case o.Server == "":
		return s.r.startOn(fmt.Sprintf("server %d", i), all, s.ip(all, i), s.r.serverFlags()...)
	}
	c, err := s.r.reach(s.hard)
	if err == nil {
		s.port, err = s.r.remotePort()
	}
	return c, err
}

// start starts process i of a side.
func (s *soakRun) start(all side, i int) error {
	c, err := s.open(all, i)
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
	h.Reconnect, h.Attach, h.Socket = true, soakAttach, s.r.Options.Socket
	if s.r.daemons != nil {
		h.Socket = s.r.daemons.socket(all)
	}
	if _, err := c.call(request{Op: opHello, Hello: h}); err != nil {
		return err
	}
	s.process++
	spec := &soakSpec{Work: s.w, Server: all == serverSide, Index: i, Process: s.process, Journal: s.dir, Attach: soakAttach}
	if all == clientSide {
		spec.Peers = s.known()
	} else if s.r.Options.Server != "" {
		spec.Journal = ""
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
	return slices.Clone(s.peers)
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

// check reads the journals: those of the servers' sockets, or else their files.
func (s *soakRun) check(told [][]byte) (*soakCheck, error) {
	c := newSoakCheck()
	var errs []error
	each := func(server bool, n int, take func(i int, j *journal) error) {
		for i := range n {
			if server && len(told) > i {
				errs = append(errs, take(i, &journal{words: told[i]}))
				continue
			}
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

// started are all processes of both sides that there are.
func (s *soakRun) started() children {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Concat(s.crew[:]...), func(c *child) bool { return c == nil })
}

// kill kills all processes, in a run that is lost.
func (s *soakRun) kill() {
	all := s.started()
	if d := s.r.daemons; d != nil {
		s.mu.Lock()
		all = append(all, d.side...)
		s.mu.Unlock()
	}
	for _, c := range all {
		c.kill()
	}
}

// end ends all processes but the daemons.
func (s *soakRun) end() {
	_ = s.started().end() // The outcome of the run is known.
	s.r.daemons.watch(nil)
}
