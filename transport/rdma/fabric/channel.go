package fabric

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/rds-go/rds/internal/fifo"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc"
	"github.com/rds-go/rds/xrc/setup"
)

// ChannelAttr describes a channel to be made.
type ChannelAttr struct {
	PD *PD // required: of the memory that is sent from and read into
	CQ *CQ // required: where requests complete
	// Local and Remote are the hosts. The zero local address is the first of
	// Config.Addresses that fits.
	Local, Remote netip.Addr
	Service       uint64 // number by which a domain of the remote host is found
	// MaxSend is how many requests may be outstanding: 1 to 1<<16, default 128.
	MaxSend int
	// Reads is how many reads and atomics may be under way at the target, to 255;
	// the peer may allow fewer. 0 forbids them.
	Reads int
	// MTU in octets, 256 to 65535. Default 4096. It says nothing about messages.
	MTU int
	// OnQueueGone hears of shared receive queues of the remote host that are no
	// more, whatever their domain. It must not block. nil: nobody does.
	OnQueueGone func(srqn uint32)
}

// Channel is an initiator that is connected, or about to be connected again. All
// methods may be called concurrently.
type Channel struct {
	f     *Fabric
	p     *peer
	index uint32
	attr  ChannelAttr
	ini   *xrc.Initiator
	dead  chan struct{}      // closed when the state is channelDead
	stop  context.CancelFunc // ends Connect

	// Constant once connected.
	ref    xrc.Ref
	target xrc.Ref
	psn    uint32
	answer xrc.Answer
	depth  int

	mu        sync.Mutex
	state     channelState       // guarded by mu
	destroyed bool               // guarded by mu: completions are for nobody
	link      *link              // guarded by mu; nil but in channelReady
	why       error              // guarded by mu; of channelDead
	works     []work             // guarded by mu, but for those that start uses
	free      []uint32           // guarded by mu
	waiting   fifo.Queue[uint32] // guarded by mu; in the order of posting
	started   int                // guarded by mu; requests that are with the connection
	reads     int                // guarded by mu; reads among started
	posted    uint64             // guarded by mu; requests ever
	starting  bool               // guarded by mu; somebody is in run
	again     bool               // guarded by mu; whoever is in run has to look once more

	starvedBy *link // the link that has the channel in starved; guarded by the link's mu

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
// domain of a service, which the peer's fabric finds or makes; nobody else has a
// part in it. It takes no longer than ctx. A refusal is a *StatusError.
//
// The channel ends with the session, or by Close.
func (f *Fabric) Connect(ctx context.Context, s *xrc.Session, a ChannelAttr) (*Channel, error) {
	def(&a.MaxSend, 128)
	def(&a.MTU, 4096)
	switch {
	case a.PD == nil || a.CQ == nil || a.PD.f != f || a.CQ.f != f:
		return nil, ErrForeign
	case a.MaxSend < 1 || a.MaxSend > 1<<16, a.Reads < 0 || a.Reads > 255, a.MTU < 256 || a.MTU > 65535:
		return nil, ErrRequest
	}
	ini, err := s.CreateInitiator(xrc.InitiatorAttr{PD: a.PD.xrc, SendCQ: a.CQ.xrc, Caps: xrc.Caps{MaxSend: a.MaxSend}})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ch := &Channel{f: f, stop: stop, attr: a, ini: ini, ref: ini.Ref(), dead: make(chan struct{}), works: make([]work, a.MaxSend)}
	for i := range a.MaxSend {
		ch.free = append(ch.free, uint32(a.MaxSend-1-i))
	}
	fail := func(err error) (*Channel, error) {
		ch.die(err)
		ctx, cancel := context.WithTimeout(context.Background(), setupTime)
		defer cancel()
		_ = ini.Destroy(ctx) // if Destroy fails the end of the session destroys the initiator
		f.mu.Lock()
		if f.inis[ch.ref.Number] == ch {
			delete(f.inis, ch.ref.Number)
		}
		f.mu.Unlock()
		return nil, err
	}
	if ch.p, err = f.peer(f.between(a.Local, a.Remote)); err != nil {
		return fail(err)
	}
	defer f.leave(ch.p)
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
	f.mu.Lock()
	f.inis[ch.ref.Number] = ch
	f.mu.Unlock()
	if ini.State() == xrc.StateError {
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

var errNotReady = &StatusError{setup.NotReady}

// Is makes all refusals with one status the same.
func (e *StatusError) Is(err error) bool {
	o, ok := err.(*StatusError)
	return ok && o.Status == e.Status
}

// connect makes one attempt.
func (ch *Channel) connect(ctx context.Context) error {
	c := setup.Connect{Mode: setup.ModeNew, Host: ch.p.local, Incarnation: ch.f.xrc.Incarnation(), Initiator: qp(ch.ref),
		MTU: uint16(ch.attr.MTU), RdAtomic: uint8(ch.attr.Reads), PSN: ch.ref.Generation & setup.MaxNumber, Service: ch.attr.Service}
	m, l, err := ch.p.call(ctx, &c)
	if err != nil {
		return err
	}
	a, ok := m.(*setup.Connected)
	switch {
	case !ok || a.Initiator != c.Initiator:
		return errRecord
	case a.Status != setup.Found:
		return &StatusError{a.Status}
	case l == nil:
		return errRecord // accepted, and refused
	}
	ch.psn, ch.depth = c.PSN, min(int(a.RdAtomic), ch.attr.Reads)
	ch.target = xrc.Ref{Kind: xrc.KindTarget, Number: a.Target.Number, Generation: a.Target.Generation}
	ch.answer = xrc.Answer{SRQN: a.Queue.SRQN, Tag: a.Queue.Tag}
	if err := ch.raise(a); err != nil {
		return err
	}
	if err := ch.ini.Identify(ch.from(l)); err != nil {
		return err
	}
	if err := ch.ini.Attach(&bearer{ch}); err != nil {
		return err
	}
	ch.activate(l)
	if ch.p.hasEnded(ch.target) {
		ch.f.xrc.PeerGone(ch.p.remote, ch.target)
	}
	return nil
}

func qp(r xrc.Ref) setup.QP { return setup.QP{Number: r.Number, Generation: r.Generation} }

// from names the target at the other end of l.
func (ch *Channel) from(l *link) xrc.Peer {
	return xrc.Peer{Host: ch.p.remote, Incarnation: l.incarnation, QP: ch.target}
}

// raise brings the initiator to StateRTS.
func (ch *Channel) raise(a *setup.Connected) error {
	const (
		toInit = xrc.MaskState | xrc.MaskPKeyIndex | xrc.MaskPort | xrc.MaskAccess
		toRTR  = xrc.MaskState | xrc.MaskAV | xrc.MaskPathMTU | xrc.MaskDestQPN | xrc.MaskRQPSN
		toRTS  = xrc.MaskState | xrc.MaskTimeout | xrc.MaskRetryCount | xrc.MaskRNRRetry | xrc.MaskSQPSN | xrc.MaskMaxRdAtomic
	)
	at := xrc.Attr{Port: 1, AV: xrc.AddressVector{Host: ch.p.remote, Port: 1}, PathMTU: int(a.MTU), DestQPN: a.Target.Number,
		RQPSN: a.PSN, SQPSN: ch.psn, MaxRdAtomic: ch.depth, Timeout: 14, RetryCount: 7, RNRRetry: 7}
	for _, step := range [...]struct {
		to xrc.State
		m  xrc.Mask
	}{{xrc.StateInit, toInit}, {xrc.StateRTR, toRTR}, {xrc.StateRTS, toRTS}} {
		at.State = step.to
		if err := ch.ini.Modify(at, step.m); err != nil {
			return err
		}
	}
	return nil
}

// Ref names the initiator.
func (ch *Channel) Ref() xrc.Ref {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.ref
}

// Target names the target at the other end.
func (ch *Channel) Target() xrc.Ref { return ch.target }

// Queue is the shared receive queue behind the service, zero if it has none.
func (ch *Channel) Queue() xrc.Answer { return ch.answer }

// Reads is how many reads and atomics may be under way.
func (ch *Channel) Reads() int { return ch.depth }

// Initiator is the object of package xrc.
func (ch *Channel) Initiator() *xrc.Initiator { return ch.ini }

// Join asks for one more service behind the same target, which must be of its
// domain: a *StatusError with NotReady if it is not, or the target is gone.
func (ch *Channel) Join(ctx context.Context, service uint64) (xrc.Answer, error) {
	m, _, err := ch.p.call(ctx, &setup.Connect{Mode: setup.ModeJoin, Host: ch.p.local, Incarnation: ch.f.xrc.Incarnation(), Initiator: qp(ch.Ref()),
		MTU: uint16(ch.attr.MTU), RdAtomic: uint8(ch.attr.Reads), PSN: ch.psn, Service: service, Target: qp(ch.target)})
	if err != nil {
		return xrc.Answer{}, err
	}
	a, ok := m.(*setup.Connected)
	switch {
	case !ok:
		return xrc.Answer{}, errRecord
	case a.Status != setup.Found:
		return xrc.Answer{}, &StatusError{a.Status}
	}
	return xrc.Answer{SRQN: a.Queue.SRQN, Tag: a.Queue.Tag}, nil
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
func (ch *Channel) connecting() (xrc.Ref, bool) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.ref, ch.state == channelConnecting
}

// queuesGone tells channels of the peer's queues that are no more.
func (p *peer) queuesGone(list []uint32) {
	for _, ch := range p.allChannels() {
		if hear := ch.attr.OnQueueGone; hear != nil {
			for _, n := range slices.Compact(list) {
				hear(n)
			}
		}
	}
}

// bearer is how the fabric carries an initiator, as xrc.Connection.
type bearer struct{ ch *Channel }

// Close is the end of the initiator: the target hears of it.
func (b *bearer) Close(cause error) {
	if tellPeer(cause) {
		b.ch.p.announce(b.ch.Ref())
	}
	b.ch.die(cause)
}
