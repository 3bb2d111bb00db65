package choice

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/transport"
)

// errForced: the peer is served by another transport than the one asked for.
var errForced = errors.New("choice: peer is served by another transport")

// Wire is what the policy needs of a transport.
type Wire struct {
	Name string // as transport.LinkStats has it
	Dial func(ctx context.Context, local, remote netip.Addr, path int) (transport.Link, error)
}

// Times are the times of a Policy.
type Times struct {
	// Patience is how long the preferred transport may go without an answer before
	// the other one is tried, at the first contact with a peer and later. A lost SYN is
	// sent again after 1 s, and after 2 s more. 0 means 3.5 s.
	Patience time.Duration
	// Gap is the least time between two moves of a pair. 0 means 30 s.
	Gap time.Duration
	// AskAfter and AskMax bound the time between two questions to a peer that the other
	// transport serves: the first comes after AskAfter, and each time without success
	// doubles, up to AskMax. 0 means 30 s and 5 min.
	AskAfter, AskMax time.Duration
}

// Options sets up a Policy. All functions are needed.
type Options struct {
	Preferred, Other Wire
	// Ask asks a peer whether it would give a link of the preferred transport, without
	// getting one.
	Ask func(ctx context.Context, local, remote netip.Addr) error
	// Absent tells whether an error of a Dial means that somebody is there who does
	// not speak the transport. Refused connections (ECONNREFUSED) always do.
	Absent func(error) bool
	// Hung tells whether an error of a Dial of the preferred transport means that its
	// port is open and the program behind it does not answer. A peer that the preferred
	// one serves does not fall back then: the other port is the same program's.
	Hung func(error) bool
	// Changed hears of every change of what serves a peer, which Chosen then tells, on
	// whatever goroutine made it. It must not block.
	Changed func(remote netip.Addr)
	// Leave ends links of a pair that are not of Target, because the pair is to move to
	// it or has begun to: the sending side first, so that nothing is lost. It is called on a
	// goroutine of Dial or of a question, and must not dial.
	Leave func(local, remote netip.Addr)
	Times
	Logger *zap.Logger // hears which transport serves whom
}

// Policy chooses between two transports.
type Policy struct {
	opts             Options
	preferred, other *Wire           // the two wires of opts
	ctx              context.Context // ends with the policy
	cancel           context.CancelFunc
	slots            chan struct{}  // one token for each question under way
	work             sync.WaitGroup // counts questions under way

	mu     lockorder.Mutex[Policy]
	pairs  map[pair]*state      // guarded by mu
	forced map[netip.Addr]*Wire // guarded by mu; the transport that Force has chosen for a peer
}

// New makes a policy.
func New(opts Options) *Policy {
	t := &opts.Times
	t.Patience, t.Gap = cmp.Or(t.Patience, 3500*time.Millisecond), cmp.Or(t.Gap, 30*time.Second)
	t.AskAfter, t.AskMax = cmp.Or(t.AskAfter, 30*time.Second), cmp.Or(t.AskMax, 5*time.Minute)
	p := &Policy{opts: opts, slots: make(chan struct{}, maxQuestions), pairs: make(map[pair]*state), forced: make(map[netip.Addr]*Wire)}
	p.preferred, p.other = &p.opts.Preferred, &p.opts.Other
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Close ends questions. Dials give no links any more, but for those that have nothing to
// note: the node closes the transports next.
func (p *Policy) Close() {
	p.cancel()
	p.mu.Lock()
	for _, st := range p.pairs {
		st.quiet()
	}
	p.mu.Unlock()
	p.work.Wait()
}

func (p *Policy) byName(name string) (*Wire, error) {
	for _, w := range []*Wire{p.preferred, p.other} {
		if w.Name == name {
			return w, nil
		}
	}
	return nil, fmt.Errorf("choice: no transport %q: %w", name, syscall.EINVAL)
}

// Force has the peer served by the transport of this name from its first connection
// on, whatever it speaks: its pairs never move, and it is never asked. errForced if one
// of them is served by another transport already.
func (p *Policy) Force(remote netip.Addr, name string) error {
	which, err := p.byName(name)
	if err != nil {
		return err
	}
	if !p.forces(remote, which) {
		return errForced
	}
	p.opts.Changed(remote)
	return nil
}

func (p *Policy) forces(remote netip.Addr, which *Wire) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f := p.forced[remote]; f != nil {
		return f == which
	}
	for k, st := range p.pairs {
		if k.remote == remote && st.serves != nil && st.serves != which {
			return false
		}
	}
	p.forced[remote] = which
	for k, st := range p.pairs {
		if k.remote == remote {
			st.quiet()
			delete(p.pairs, k) // its next state is that of a forced peer
		}
	}
	return true
}

// Admits tells whether a peer may be served by the transport of this name: Force has not
// chosen the other one for it.
func (p *Policy) Admits(remote netip.Addr, name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.forced[remote.Unmap()]
	return f == nil || f.Name == name
}

// Accepts tells whether an inbound link may be used. A link to the side that dials is a
// knock, which tells that the peer can be asked now; a link that the peer dials settles what
// serves the pair when it is put to use (Taken).
func (p *Policy) Accepts(l transport.Link) bool {
	k, name := pairOf(l.LocalAddr().Addr(), l.RemoteAddr().Addr()), l.Stats().Transport
	if !p.Admits(k.remote, name) {
		return false
	}
	if k.dials() && name == p.preferred.Name {
		p.begin(k, true)
	}
	return true
}

// Taken says that an inbound link is in use: where the peer dials, the link's transport
// serves the pair from now on. Links that are refused settle nothing: the host that made
// them may not be the peer.
func (p *Policy) Taken(l transport.Link) {
	k := pairOf(l.LocalAddr().Addr(), l.RemoteAddr().Addr())
	if which, err := p.byName(l.Stats().Transport); err == nil && !k.dials() {
		p.choose(k, which, "the peer connects by it", nil)
	}
}

// Inherit notes that a pair is served by the transport of this name, as another process
// has found out. A name that neither transport has is ignored: the pair is as new.
func (p *Policy) Inherit(local, remote netip.Addr, name, reason string) {
	which, err := p.byName(name)
	if err != nil {
		return
	}
	k := pairOf(local, remote)
	p.mu.Lock()
	defer p.mu.Unlock()
	if st := p.stateLocked(k); st.serves == nil {
		st.settle(which, reason)
		st.asked = time.Now()
		p.askLaterLocked(k, st)
	}
}

// Ended ends questions to the peer of a pair that has no links now. Unless it is to keep
// what serves the pair, the policy forgets it.
func (p *Policy) Ended(local, remote netip.Addr, keep bool) {
	k := pairOf(local, remote)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lookLocked(k).quiet()
	if !keep {
		delete(p.pairs, k)
	}
}

// Pairs is the number of pairs of which something is known.
func (p *Policy) Pairs() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.pairs)
}
