package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rds-go/rds/internal/cli"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
)

const rpingLong = `rping speaks with rping of rdma-core, or with itself: the client advertises a
ping, the server reads it by RDMA Read and writes it back by RDMA Write. Each
step is a message that says where a buffer is.

The rping of rdma-core takes sizes up to 65535, and its server only pings up to
its own -S.`

// pingOptions are the flags that both sides have.
type pingOptions struct {
	terms
	count    cli.Number
	size     cli.Number
	verbose  bool
	validate bool
	json     bool
}

func (o *pingOptions) flags(f *pflag.FlagSet, size string, sizeDefault int, count string) {
	o.size = cli.Number(sizeDefault)
	f.VarP(&o.count, "count", "C", count)
	f.VarP(&o.size, "size", "S", size)
	f.BoolVarP(&o.verbose, "verbose", "v", false, "print ping data")
	f.BoolVarP(&o.validate, "validate", "V", false, "validate ping data")
	f.BoolVar(&o.json, "json", false, "print JSON, one object per line")
}

func (o *pingOptions) check() error {
	if o.size < cli.Number(minPing) || o.size > maxPing {
		return cli.Usagef("size %d is not in %d..%d", o.size, minPing, maxPing)
	}
	return nil
}

func rpingCommand() *cobra.Command {
	cmd := group(&cobra.Command{Use: "rping", Short: "Ping-pong through RDMA Read and Write, as rping does", Long: rpingLong})
	cmd.AddCommand(rpingClientCommand(), rpingServerCommand())
	return cmd
}

func rpingClientCommand() *cobra.Command {
	var o pingOptions
	var source string
	cmd := &cobra.Command{
		Use: "client -a ADDRESS", Short: "The side that pings",
		Example: `  rdsverbs rping client -a 10.0.0.2 -C 10 -v -V   ten pings of 64 bytes
  rdsverbs rping client -a 10.0.0.2 -S 65535      until Ctrl-C`,
		Args: cli.Args(cobra.NoArgs),
		RunE: runner(func(ctx context.Context, _ []string) error { return runPingClient(ctx, &o, source) }),
	}
	f := cmd.Flags()
	o.terms.flags(f, "", 1, 10*time.Second)
	f.StringVarP(&source, "interface", "I", "", "local `address` to connect from")
	o.flags(f, "size of a ping", 64, "stop after this many pings; 0 means never")
	return cmd
}

func runPingClient(ctx context.Context, o *pingOptions, source string) error {
	if err := o.check(); err != nil {
		return err
	}
	params, err := o.params()
	if err != nil {
		return err
	}
	to, err := o.server(ctx)
	if err != nil {
		return err
	}
	var from netip.AddrPort
	if source != "" {
		addr, err := lookUpLocal(ctx, source)
		if err != nil {
			return err
		}
		from = netip.AddrPortFrom(addr, 0)
	}
	dev, err := iwarp.Open(iwarp.Config{EventLoops: 1})
	if err != nil {
		return cli.WithStatus(cli.StatusUsage, err)
	}
	defer dev.Close()
	c, err := newPingClient(dev, o, &printer{w: os.Stdout, json: o.json})
	if err != nil {
		return cli.WithStatus(cli.StatusUsage, err)
	}
	defer c.close()
	return c.run(ctx, from, to, params)
}

func rpingServerCommand() *cobra.Command {
	var o pingOptions
	var persistent bool
	connections := cli.Number(1)
	cmd := &cobra.Command{
		Use: "server", Short: "The side that echoes",
		Example: `  rdsverbs rping server -v            one connection on any address
  rdsverbs rping server -P -V         until Ctrl-C, many at a time`,
		Args: cli.Args(cobra.NoArgs),
		RunE: runner(func(ctx context.Context, _ []string) error {
			if persistent {
				connections = 0
			}
			return runPingServer(ctx, &o, int(connections))
		}),
	}
	f := cmd.Flags()
	o.terms.flags(f, "0.0.0.0", 1, 0)
	o.flags(f, "longest ping that is taken", maxPing, "pings that each connection must have had when it ends; 0 takes any number")
	f.BoolVarP(&persistent, "persistent", "P", false, "serve many connections, also at a time, until interrupted")
	f.Var(&connections, "connections", "serve this many and end")
	return cmd
}

func runPingServer(ctx context.Context, o *pingOptions, connections int) error {
	if err := o.check(); err != nil {
		return err
	}
	params, err := o.params()
	if err != nil {
		return err
	}
	at, err := o.listening(ctx)
	if err != nil {
		return err
	}
	dev, err := iwarp.Open(iwarp.Config{})
	if err != nil {
		return cli.WithStatus(cli.StatusUsage, err)
	}
	defer dev.Close()
	s, err := newPingServer(dev, o, params, at, &printer{w: os.Stdout, json: o.json})
	if err != nil {
		return cli.WithStatus(cli.StatusUsage, err)
	}
	defer s.close()
	return s.run(ctx, connections)
}

// pingEnd is one side of a ping connection: a queue pair with two receives
// posted, and the region for pings.
type pingEnd struct {
	*endpoint
	pd    *iwarp.PD
	inbox *iwarp.MR // two adverts
	step  func(context.Context) (context.Context, context.CancelFunc)
}

func newPingEnd(dev *iwarp.Device, pd *iwarp.PD, t *terms) (*pingEnd, error) {
	e, err := newEndpoint(dev, pd, 8, inboxes)
	if err != nil {
		return nil, err
	}
	p := &pingEnd{endpoint: e, pd: pd, step: t.step}
	if p.inbox, err = pd.RegMR(make([]byte, inboxes*advertLen), mr.LocalWrite, 0); err != nil {
		e.close()
		return nil, err
	}
	for i := range inboxes {
		if err := p.post(i); err != nil {
			p.close()
			return nil, err
		}
	}
	return p, nil
}

// inboxes is how many messages may come before we look: the client's next
// advert follows at once on our "done".
const inboxes = 2

func (p *pingEnd) post(i int) error {
	_, err := p.qp.PostReceive(iwarp.ReceiveRequest{ID: uint64(i), SGE: []iwarp.SGE{p.inbox.SGE(i*advertLen, advertLen)}})
	return err
}

func (p *pingEnd) close() {
	p.endpoint.close()
	dereg(p.inbox)
}

// dereg ends a region that no queue pair uses any more.
func dereg(m *iwarp.MR) {
	if m != nil {
		_ = m.Dereg(context.Background())
	}
}

// receive waits for the peer's next message.
func (p *pingEnd) receive(ctx context.Context) (advert, error) {
	ctx, cancel := p.step(ctx)
	defer cancel()
	c, err := p.want(ctx, iwarp.OpReceive)
	if err != nil {
		return advert{}, err
	}
	if c.Len != advertLen {
		return advert{}, fmt.Errorf("message of %d octets, rping's have %d", c.Len, advertLen)
	}
	i := int(c.ID)
	a := parseAdvert(p.inbox.Bytes()[i*advertLen:][:advertLen])
	return a, p.post(i)
}

// message is the work request that sends an advert.
func message(a advert) iwarp.WorkRequest {
	return iwarp.WorkRequest{Op: iwarp.OpSend, Inline: a.append(nil)}
}
