package choice

import (
	"net/netip"
	"time"

	"github.com/rds-go/rds/internal/gnetloop"
	"github.com/rds-go/rds/transport"
)

// passing is a transport whose listening sockets another process can take over.
type passing interface {
	Pause()
	Resume()
	Listening() ([]gnetloop.Listening, error)
}

func (t *Transport) eachPassing(f func(passing)) {
	for _, tr := range []transport.Transport{t.opts.Other, t.opts.Preferred} {
		if p, ok := tr.(passing); ok {
			f(p)
		}
	}
}

// Pause has links accepted no more: they wait in the kernel until Resume, or for another
// process that has the sockets. Links go on.
func (t *Transport) Pause() { t.eachPassing(passing.Pause) }

// Resume ends a Pause.
func (t *Transport) Resume() { t.eachPassing(passing.Resume) }

// Listening returns the listening sockets of both, to be passed to another process.
func (t *Transport) Listening() (out []gnetloop.Listening, err error) {
	t.eachPassing(func(p passing) {
		if err != nil {
			return
		}
		var more []gnetloop.Listening
		more, err = p.Listening()
		out = append(out, more...)
	})
	if err != nil {
		for _, l := range out {
			_ = l.File.Close()
		}
		return nil, err
	}
	return out, nil
}

// Inherit notes that a pair is served by the transport of this name, as another process
// has found out. A name that neither transport has is ignored: the pair is as new.
func (t *Transport) Inherit(local, remote netip.Addr, name, reason string) {
	which, err := t.byName(name)
	if err != nil {
		return
	}
	k := pairOf(local, remote)
	t.mu.Lock()
	defer t.mu.Unlock()
	st := t.stateLocked(k)
	if f := t.forced[k.remote]; st.serves != nil || f != nil && f != which {
		return
	}
	st.settle(which, reason)
	st.asked = time.Now()
	if which == t.opts.Other {
		t.askLaterLocked(k, st)
	}
}
