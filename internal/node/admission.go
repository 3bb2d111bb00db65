package node

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
	"github.com/rds-go/rds/rds/info"
	"github.com/rds-go/rds/transport"
)

// allowList is an Admission made ready for look-ups. It does not change.
type allowList struct {
	prefixes map[netip.Prefix]struct{}
	bits4    []int // lengths of the IPv4 prefixes, each once
	bits6    []int // lengths of the IPv6 prefixes, each once
}

// newAllowList returns nil for an Admission that allows everybody.
func newAllowList(a *config.Admission) *allowList {
	if len(a.Allow) == 0 {
		return nil
	}
	l := &allowList{prefixes: make(map[netip.Prefix]struct{})}
	var seen4, seen6 [129]bool
	for _, p := range a.Allow {
		p, _ = config.UnmapPrefix(p)
		l.prefixes[p] = struct{}{}
		seen, bits := &seen6, &l.bits6
		if p.Addr().Is4() {
			seen, bits = &seen4, &l.bits4
		}
		if b := p.Bits(); !seen[b] {
			seen[b] = true
			*bits = append(*bits, b)
		}
	}
	return l
}

// has tells whether some prefix contains the address.
func (l *allowList) has(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	bits := l.bits6
	if a.Is4() {
		bits = l.bits4
	}
	for _, b := range bits {
		p, err := a.Prefix(b)
		if _, ok := l.prefixes[p]; ok && err == nil {
			return true
		}
	}
	return false
}

// listed tells whether the allow-list names an address. Without a list it is false.
func (n *Node) listed(a netip.Addr) bool {
	l := n.allowed.Load()
	return l != nil && l.has(a)
}

// Allows tells whether there may be a connection with an address: there is no
// allow-list, or it names the address, or the address is the node's own.
func (n *Node) Allows(a netip.Addr) bool {
	l := n.allowed.Load()
	return l == nil || l.has(a) || n.Local(a.Unmap()) != nil
}

// SetAdmission is Node.SetAdmission of package rds.
func (n *Node) SetAdmission(a config.Admission) error {
	if err := a.Validate(); err != nil {
		return &datagram.OpError{Op: "admission", Err: fmt.Errorf("%w: %w", datagram.ErrInvalid, err)}
	}
	n.admissionMu.Lock()
	defer n.admissionMu.Unlock()
	n.allowed.Store(newAllowList(&a))
	ended := n.enforce()
	awaitReset(ended)
	n.Log.Info("allow-list changed", zap.Int("prefixes", len(a.Allow)), zap.Int("connections_ended", len(ended)))
	return nil
}

// enforce brings all connections in line with the allow-list, and returns those whose
// links it resets.
func (n *Node) enforce() (ended []*Peer) {
	turned := false
	n.EachPeer(func(p *Peer) {
		changed, reset := p.bar(!n.Allows(p.Remote))
		turned = turned || changed
		if reset {
			ended = append(ended, p)
		}
	})
	if turned {
		n.Server().AdmissionNews()
	}
	return ended
}

// resetWait bounds how long SetAdmission waits for links to end, whose event loops may be
// busy.
const resetWait = time.Second

// awaitReset waits until the links of barred peers have ended. Until then what has
// arrived on them is still delivered.
func awaitReset(peers []*Peer) {
	late := time.NewTimer(resetWait)
	defer late.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for _, p := range peers {
		for p.linked() {
			select {
			case <-tick.C:
			case <-late.C:
				return
			}
		}
	}
}

// linked tells whether the peer has a link that has not ended.
func (p *Peer) linked() bool {
	p.Lock()
	defer p.Unlock()
	return p.Linked() > 0
}

// bar begins or ends that there may be no connection with the peer. It tells whether that
// is news, and whether there were links, which are reset.
func (p *Peer) bar(on bool) (changed, reset bool) {
	p.Lock()
	if p.Core.Barred() == on {
		p.Unlock()
		return false, false
	}
	var links []transport.Link
	p.Barred.Store(on)
	p.Node.Server().ShowDown(p) // before messages end, whose room lets senders go on
	if on {
		links = p.Links()
		p.Core.Bar()
		for _, f := range slices.Clone(p.Flows) {
			ended, _ := p.endParkedLocked(f, datagram.StatusOtherError, func(*parked) bool { return true })
			p.Node.Counters.SendNotAllowed.Add(uint64(ended))
		}
	} else {
		p.Core.Unbar(time.Now())
	}
	p.turned = true // sockets and applications are to hear of it
	p.Arm()
	p.Commit()
	for _, l := range links {
		l.Close(transport.Abort) // Draining would go on taking what the peer sends.
	}
	return true, len(links) > 0
}

// admission is the report of the allow-list.
func (n *Node) admission() *info.Admission {
	i := new(info.Admission)
	n.rejections.info(i)
	if l := n.allowed.Load(); l != nil {
		i.Allow = slices.SortedFunc(maps.Keys(l.prefixes), func(a, b netip.Prefix) int {
			return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
		})
	} else if i.Rejected == 0 {
		return nil
	}
	return i
}

// dial makes a link to an address that the node may have connections with.
func (n *Node) dial(ctx context.Context, local, remote netip.Addr, path int) (transport.Link, error) {
	switch {
	case !n.Allows(remote):
		return nil, transport.ErrNotAllowed
	case n.Local(remote) != nil:
		return n.self.Dial(ctx, local, remote, path)
	case n.choice != nil:
		return n.choice.Dial(ctx, local, remote, path)
	}
	return n.wires[0].Dial(ctx, local, remote, path)
}

// gate is the node as its transport's transport.Gate.
type gate struct{ n *Node }

var _ transport.Gate = gate{}

// Admits is for connections that come in. It counts those that it turns away.
func (g gate) Admits(remote netip.Addr) bool {
	if g.n.Allows(remote) {
		return true
	}
	g.n.rejections.count(remote, time.Now())
	return false
}

// Listed is for bounds on strangers.
func (g gate) Listed(remote netip.Addr) bool { return g.n.listed(remote) }

// Allows is for connections that go out.
func (g gate) Allows(remote netip.Addr) bool { return g.n.Allows(remote) }
