package xrc

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/rds-go/rds/internal/fifo"
	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc/objects"
)

// ChannelAttr describes a channel to be made.
type ChannelAttr struct {
	PD *objects.PD // required: of the memory that is sent from and read into
	CQ *objects.CQ // required: where requests complete
	// Local and Remote are the hosts. The zero local address is the first of
	// Config.Addresses that fits.
	Local, Remote netip.Addr
	Service       uint64 // number by which a domain of the remote host is found
	// MaxSend is how many requests may be outstanding: 1 to 1<<16, default 128.
	MaxSend int
	// Reads is how many reads and atomics may be under way at the target, to 255;
	// the peer may allow fewer. 0 forbids them.
	Reads int
	// MTU bounds the payload of the segments that messages and writes are sent in, in octets: 256
	// to 65535, which is the default. The peer may want shorter ones.
	MTU int
	// Retry says when requests that nobody answers fail; nil: DefaultRetry.
	Retry *Retry
	// OnQueueGone hears of shared receive queues of the remote host that are no
	// more, whatever their domain. It must not block. nil: nobody does.
	OnQueueGone func(srqn uint32)
}

// Retry are the attributes of an initiator that bound its patience, with the codes of verbs.
type Retry struct {
	// Timeout is 4.096 µs << Timeout, 0 for ever. An initiator ends (iwarp.RetryExceeded) when the
	// peer has been silent for Count + 1 of them while one of its requests is under way. While the
	// connection is lost that does not count: objects.Config.Grace does.
	Timeout, Count uint8
	// NotReady is how often a message is offered again to a queue that has no receive posted
	// before the initiator ends (iwarp.ReceiverNotReady); 7 is for ever. Between two offers passes
	// the RNR timer of the target.
	NotReady uint8
}

// DefaultRetry is 8 times 2.1 s of silence, and any time of an empty queue.
var DefaultRetry = Retry{Timeout: 19, Count: 7, NotReady: forEver}

// Channel is an initiator that is connected, or about to be connected again. All
// methods may be called concurrently.
type Channel struct {
	t     *Transport
	p     *peer
	index uint32
	attr  ChannelAttr
	ini   *objects.Initiator
	dead  chan struct{}      // closed when the state is channelDead
	stop  context.CancelFunc // ends Connect

	// Constant once connected.
	ref    objects.Ref
	target objects.Ref
	answer objects.Answer

	mu        lockorder.Mutex[Channel]
	state     channelState       // guarded by mu
	held      bool               // guarded by mu: the initiator is in StateSQD, nothing is started
	asks      bool               // guarded by mu: verify runs
	watched   bool               // guarded by mu: patience watches the channel
	attrs     objects.Attr       // guarded by mu; the initiator's
	limits    limits             // guarded by mu; the target's
	depth     int                // guarded by mu; reads and atomics that may be under way
	signs     uint64             // guarded by mu; signs of life of the peer
	reason    iwarp.Status       // guarded by mu; status of the first request that is flushed, if not iwarp.Success
	destroyed bool               // guarded by mu: completions are for nobody
	onLoop    bool               // guarded by mu: an event loop has found why the channel ends
	mux       *mux               // guarded by mu; nil but in channelReady
	why       error              // guarded by mu; of channelDead
	works     []work             // guarded by mu, but for those that start uses
	free      []uint32           // guarded by mu
	waiting   fifo.Queue[uint32] // guarded by mu; in the order of posting
	sole      uint32             // guarded by mu; the queue that all requests in waiting are messages to, 0: several, or not known
	started   int                // guarded by mu; requests that are with the connection
	reads     int                // guarded by mu; reads among started
	posted    uint64             // guarded by mu; requests ever
	starting  bool               // guarded by mu; somebody is in run
	again     bool               // guarded by mu; whoever is in run has to look once more

	// Queues that the target's domain has; see reachesLocked.
	reaches map[uint32]struct{} // guarded by mu; queues that the peer has said so of, on this connection
	reached uint32              // guarded by mu; the last queue of reaches that was looked for, or 0
	asked   map[uint32]struct{} // guarded by mu; queues that the peer is being asked about; nil: it is not
	unsure  bool                // guarded by mu; a request waits for the peer to be asked

	starvedBy *mux // the link that has the channel in starved; guarded by the link's mu

	batch []iwarp.WorkRequest // scratch of whoever is in run
	slots []uint32
}

// channelState is that of a Channel.
//
//	connecting ──▶ ready ◀──▶ suspended
//	     └───────────┴────────────┴──────▶ dead
type channelState uint8

const (
	channelConnecting channelState = iota
	channelReady
	channelSuspended
	channelDead
)

// Connect makes an initiator of the session and connects it to a target in the
// domain of a service, which the peer's transport finds or makes; nobody else has a
// part in it. It takes no longer than ctx. A refusal is a *StatusError.
//
// The channel ends with the session, or by Close.
func (t *Transport) Connect(ctx context.Context, s *objects.Session, a ChannelAttr) (*Channel, error) {
	a.MaxSend = cmp.Or(a.MaxSend, 128)
	a.MTU = cmp.Or(a.MTU, 65535)
	a.Retry = cmp.Or(a.Retry, &DefaultRetry)
	switch {
	case a.MaxSend < 1 || a.MaxSend > 1<<16, a.Reads < 0 || a.Reads > 255, a.MTU < 256 || a.MTU > 65535:
		return nil, ErrRequest
	}
	ini, err := s.CreateInitiator(objects.InitiatorAttr{PD: a.PD, SendCQ: a.CQ, MaxSend: a.MaxSend})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ch := &Channel{t: t, stop: stop, attr: a, ini: ini, ref: ini.Ref(), dead: make(chan struct{}), works: make([]work, a.MaxSend)}
	for i := range a.MaxSend {
		ch.free = append(ch.free, uint32(a.MaxSend-1-i))
	}
	fail := func(err error) (*Channel, error) {
		ch.die(err)
		ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
		defer cancel()
		_ = ini.Destroy(ctx) // if Destroy fails the end of the session destroys the initiator
		return nil, err
	}
	if ch.p, err = t.peer(t.between(a.Local, a.Remote)); err != nil {
		return fail(err)
	}
	defer t.leave(ch.p)
	ch.p.connects(1)
	defer ch.p.connects(-1)
	ch.p.mu.Lock()
	ch.p.lastChannel++
	if ch.p.lastChannel == controlIndex {
		ch.p.lastChannel = 0
	}
	ch.index = ch.p.lastChannel
	ch.p.channels[ch.index] = ch
	ch.p.mu.Unlock()
	ch.p.want()
	if !ini.OnEnd(ch.destroy) || ini.State() == objects.StateError {
		return fail(ErrClosed) // the session has ended, and the channel has not heard yet
	}
	for {
		switch err := ch.connect(ctx); {
		case err == nil:
			return ch, nil
		case !errors.Is(err, errNotReady):
			return fail(err)
		}
		wait, err := ini.Restart()
		if err != nil {
			return fail(err)
		}
		ch.mu.Lock()
		ch.ref = ini.Ref()
		ch.mu.Unlock()
		pause := time.NewTimer(wait)
		select {
		case <-pause.C:
		case <-ch.dead:
		case <-ctx.Done():
			pause.Stop()
			return fail(ctx.Err())
		}
	}
}

var errNotReady = &StatusError{objects.StatusNotReady}

// Is makes all refusals with one status the same.
func (e *StatusError) Is(err error) bool {
	o, ok := err.(*StatusError)
	return ok && o.Status == e.Status
}

// connect makes one attempt.
func (ch *Channel) connect(ctx context.Context) error {
	c := connect{mode: modeNew, host: ch.p.local, incarnation: ch.t.objects.Incarnation(), initiator: ch.ref,
		mtu: uint16(ch.attr.MTU), reads: uint8(ch.attr.Reads), service: ch.attr.Service}
	answer, m, err := ch.p.call(ctx, &c)
	if err != nil {
		return err
	}
	a, ok := answer.(*connected)
	switch {
	case !ok || a.initiator != c.initiator:
		return errRecord
	case a.status != objects.StatusFound:
		return &StatusError{a.status}
	}
	ch.target, ch.answer = a.target, a.queue
	ch.target.Kind = objects.KindTarget
	ch.limit(a.limits, a.reads)
	retry := ch.attr.Retry
	if err := ch.ini.Connect(ch.from(m), objects.Attr{PathMTU: int(a.mtu), MaxRdAtomic: min(int(a.reads), ch.attr.Reads),
		Timeout: retry.Timeout, RetryCount: retry.Count, RNRRetry: retry.NotReady}); err != nil {
		return err
	}
	if err := ch.ini.Attach(&bearer{ch}); err != nil {
		return err
	}
	ch.activate(m)
	ended, news := ch.p.newsOf(ch.target)
	if news != nil {
		ch.limit(news.limits, news.reads)
	}
	if ended {
		ch.t.objects.PeerGone(ch.p.remote, ch.target)
	}
	return nil
}

// from names the target at the other end of m.
func (ch *Channel) from(m *mux) objects.Peer {
	return objects.Peer{Host: ch.p.remote, Incarnation: m.incarnation, QP: ch.target}
}

// Ref names the initiator.
func (ch *Channel) Ref() objects.Ref {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.ref
}

// Target names the target at the other end.
func (ch *Channel) Target() objects.Ref { return ch.target }

// Queue is the shared receive queue behind the service, zero if it has none.
func (ch *Channel) Queue() objects.Answer { return ch.answer }

// Reads is how many reads and atomics may be under way.
func (ch *Channel) Reads() int {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.depth
}

// Initiator is the object of package xrc/objects.
func (ch *Channel) Initiator() *objects.Initiator { return ch.ini }

// Join asks for one more service behind the same target, which must be of its
// domain: a *StatusError with NotReady if it is not, or the target is gone.
func (ch *Channel) Join(ctx context.Context, service uint64) (objects.Answer, error) {
	answer, _, err := ch.p.call(ctx, &connect{mode: modeJoin, host: ch.p.local, incarnation: ch.t.objects.Incarnation(), initiator: ch.Ref(),
		mtu: uint16(ch.attr.MTU), reads: uint8(ch.attr.Reads), service: service, target: ch.target})
	if err != nil {
		return objects.Answer{}, err
	}
	a, ok := answer.(*connected)
	switch {
	case !ok:
		return objects.Answer{}, errRecord
	case a.status != objects.StatusFound:
		return objects.Answer{}, &StatusError{a.status}
	}
	return a.queue, nil
}

// Close destroys the initiator; the peer's target ends with it. Requests that are
// outstanding vanish. It waits for the session's events of the initiator to be
// acknowledged.
func (ch *Channel) Close(ctx context.Context) error { return ch.ini.Destroy(ctx) }

// Done is closed when the channel is of no more use: Err says why.
func (ch *Channel) Done() <-chan struct{} { return ch.dead }

// Err is why the channel ended, nil if it has not.
func (ch *Channel) Err() error {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.why
}

// connecting tells whether the peer may have a target that we do not know of.
func (ch *Channel) connecting() (objects.Ref, bool) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.ref, ch.state == channelConnecting
}

// queueGone tells peers that a shared receive queue of ours is no more.
func (t *Transport) queueGone(number uint32) {
	for _, p := range t.allPeers() {
		if m := p.talking(); m != nil {
			m.control.close(number)
		}
	}
}

// queuesGone tells channels of the peer's queues that are no more.
func (p *peer) queuesGone(list []uint32) {
	for _, ch := range p.allChannels() {
		ch.mu.Lock()
		ch.forgetLocked(list...)
		ch.mu.Unlock()
		if hear := ch.attr.OnQueueGone; hear != nil {
			for _, n := range slices.Compact(list) {
				hear(n)
			}
		}
	}
}

// bearer is how a mux carries an initiator, as objects.Connection.
type bearer struct{ ch *Channel }

// Close is the end of the initiator: the target hears of it.
func (b *bearer) Close(cause error) {
	if cause == objects.ErrForbidden { // before the end is announced, and when no answer to this can come first
		b.ch.mu.Lock()
		m := b.ch.mux
		b.ch.mu.Unlock()
		if m != nil {
			m.control.accuse(b.ch.target)
		}
	}
	if tellPeer(cause) {
		b.ch.p.announce(b.ch.Ref())
	}
	b.ch.die(cause)
}

// Changed follows a change of the initiator's attributes, or of its state.
func (b *bearer) Changed() { b.ch.sync() }
