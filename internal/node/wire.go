package node

import (
	"errors"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/choice"
	"github.com/rds-go/rds/internal/gnetloop"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/transport/tcp"
	"github.com/rds-go/rds/transport/xrc"
	"github.com/rds-go/rds/xrc/objects"
)

// openWires makes the transports to other hosts. in are the sockets that they take over, and
// times those of the policy, if there are two transports. network brings the sockets; nil: the
// host's.
func (n *Node) openWires(in *gnetloop.Inheritance, times choice.Times, network gnetloop.Network) (err error) {
	c := &n.Config
	if c.Transport != nil {
		n.wires, n.domain = []transport.Transport{c.Transport}, c.Domain
		return nil
	}
	if c.Wire != config.WireTCP {
		o := xrcOptions(c, n.Generation, gate{n}, in, n.Loops)
		o.Network = network
		o.Want, o.Protection = n.wanted, n.memoryAt
		o.Admit = func(remote netip.Addr) bool { return n.choice == nil || n.choice.Admits(remote, xrc.Name) }
		if n.Xrc, err = xrc.New(o); err != nil {
			return err
		}
		n.wires, n.Listeners = append(n.wires, n.Xrc), append(n.Listeners, n.Xrc.Sockets())
		n.domain = n.Xrc.Domain()
	}
	if c.Wire != config.WireXRC {
		o := tcpOptions(c, gate{n}, in, n.Loops)
		o.Network = network
		t, err := tcp.New(o)
		if err != nil {
			return errors.Join(err, n.closeWires())
		}
		n.wires, n.Listeners = append(n.wires, t), append(n.Listeners, t.Sockets())
	}
	if len(n.wires) == 2 {
		err = n.choose(times)
	}
	return err
}

// listen listens on an address by all transports, the preferred one first: a peer that gets
// through by the other one could have had the preferred one. After an error it may be called
// again, and goes on where it has ended. The caller holds Node.opened.
func (n *Node) listen(a netip.Addr) error {
	all := append(slices.Clone(n.wires), n.self)
	for i := n.halfOpen[a]; i < len(all); i++ {
		if err := all[i].Listen(a, func(l transport.Link) { n.accept(a, l, i == len(n.wires)) }); err != nil {
			n.halfOpen[a] = i
			return err
		}
	}
	delete(n.halfOpen, a)
	return nil
}

// closeWires closes the transports to other hosts, the preferred one last, as it listens first.
func (n *Node) closeWires() (err error) {
	if n.choice != nil {
		n.choice.Close()
	}
	for _, t := range slices.Backward(n.wires) {
		err = errors.Join(err, t.Close())
	}
	return err
}

// wanted keeps a connection to a peer, for channels of XRC, until release. An address that
// the node does not have, or may not speak to, has none: channels to it end by their own time.
func (n *Node) wanted(local, remote netip.Addr) (release func()) {
	la := n.Local(local)
	if la == nil {
		return func() {}
	}
	p, err := n.Peer(la, remote)
	if err != nil {
		return func() {}
	}
	p.Lock()
	p.channels++
	p.Core.Need(true)
	p.Core.Connect(time.Now())
	p.Arm()
	p.Commit()
	return func() {
		p.Lock()
		p.channels--
		p.Unlock()
		p.Release()
	}
}

// portFields are the TCP ports that a node listens on, for the log.
func portFields(c *config.Node) (fields []zap.Field) {
	tcp, xrc := c.ListenPorts()
	if tcp != 0 {
		fields = append(fields, zap.Uint16("tcp_port", tcp))
	}
	if xrc != 0 {
		fields = append(fields, zap.Uint16("xrc_port", xrc))
	}
	return fields
}

func xrcOptions(c *config.Node, generation uint32, g transport.Gate, in *gnetloop.Inheritance, loops *gnetloop.Loops) xrc.Options {
	return xrc.Options{
		Generation: generation, Port: c.XrcPort(), CRC: xrc.CRC(c.XRC.CRC), Addresses: c.Addresses, Operations: c.XRC.Operations, MaxMessage: c.MaxMessage,
		XRC: objects.Config{Shares: objectShares()}, Overrun: c.ReceiveOverrun, Config: iwarp.Config{
			Gate: g, Memory: c.Memory, Inherited: in, Sharing: sharing(c), Logger: c.Logger,
			SendBuffer: c.TCP.SendBuffer, LocalSendBuffer: localSendBuffer(c), ReceiveBuffer: c.TCP.ReceiveBuffer, UserTimeout: c.TCP.UserTimeout, Silence: c.TCP.Silence,
			Congestion: c.TCP.Congestion, EventLoops: c.TCP.EventLoops, Loops: loops, CloseTimeout: c.TCP.DrainTimeout,
		},
	}
}

// userTargets bounds the targets of all applications of a user: four times what one may have.
const userTargets = 16384

// objectShares are the shares of users in what the process has but once: an eighth of its descriptors may keep
// the files of domains.
func objectShares() objects.Shares {
	s := objects.Shares{Targets: userTargets}
	var r syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r) == nil {
		s.Files = int(max(1, min(uint64(r.Cur), 1<<20)/8))
	}
	return s
}

// sharing is what the transports take of config.Node.Shared.
func sharing(c *config.Node) *gnetloop.Sharing {
	if c.Shared == nil {
		return nil
	}
	return &gnetloop.Sharing{Prefixes: c.Shared.Prefixes, Register: c.Shared.Register}
}
