// Command rdsping asks whether a host answers over RDS, and how fast.
//
// A ping is a message to port 0 of the host; the answer, without payload, comes
// from there. As rds-ping of Linux does, it uses eight sockets in turn, with
// one ping under way on each, and tells pings apart by the socket an answer
// arrives on.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/rds-go/rds/internal/cli"
	"github.com/rds-go/rds/rds"
)

const long = `rdsping sends RDS pings to HOST and prints the round trip time of each answer.

Interrupted by Ctrl-C, or after -c pings, it prints a summary. Of a HOST with
several addresses the first IPv4 address is pinged, else the first IPv6 address. RDS delivers
reliably: a ping to a host that is down waits for it, at most -W seconds; then
it counts as lost and is withdrawn.

The rdsd provider attaches to a running rdsd and pings from one of its
addresses. The node provider runs an RDS stack inside rdsping, which needs ports
16385 and 18634 of the local address for itself: the host with the smaller address
connects, so the other one must be reachable. The kernel provider uses the RDS
of Linux. The default is what $RDS_PROVIDER names, else rdsd if this host has one,
running or not (/run/rds exists, or $RDS_SOCKET is set), else node; with --socket
it is rdsd, and with --port or --wire node.

Exit status: 0 if there was an answer, 1 if there was none, 2 if it could not begin.`

const examples = `  rdsping 10.0.0.2                 until Ctrl-C
  rdsping -c 5 -i 200ms node2      five pings, five a second
  rdsping -s 64k -q -c 1k node2    1,024 pings of 64 KiB, only the summary
  rdsping -I 127.0.0.2 127.0.0.1   from another local address
  rdsping --provider node node2    with a stack of its own, whether rdsd runs or not
  rdsping --wire tcp node2         the same over RDS over TCP, as Linux speaks it
  rdsping --provider kernel node2  through the kernel's RDS
  rdsping -c 3 --json node2        one JSON object per answer, one for the summary`

// options are the flags.
type options struct {
	host     string
	local    string
	count    cli.Number // 0: until interrupted
	size     cli.Number
	interval cli.Interval
	timeout  cli.Interval
	port     uint16
	wire     string
	provider string
	socket   string
	quiet    bool
	json     bool
}

func main() { os.Exit(cli.Main(newCommand())) }

func newCommand() *cobra.Command {
	o := options{interval: cli.Interval(time.Second), timeout: cli.Interval(5 * time.Second)}
	cmd := &cobra.Command{
		Use: "rdsping [flags] HOST", Short: "Ping a host over RDS", Long: long, Example: examples,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.host = args[0]
			if err := o.choose(cmd.Flags().Changed("port") || cmd.Flags().Changed("wire")); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			context.AfterFunc(ctx, stop) // the second signal kills
			return run(ctx, &o)
		},
	}
	f := cmd.Flags()
	f.VarP(&o.count, "count", "c", "stop after this many pings (k, m, g: times 1024); 0 means never")
	f.VarP(&o.interval, "interval", "i", "time between pings: seconds, or with ms or us; 0 sends as fast as answers come")
	f.VarP(&o.size, "size", "s", "payload of a ping in bytes, which is not sent back")
	f.StringVarP(&o.local, "interface", "I", "", "local `address` or name to ping from (default: the one the route to HOST has, else another of rdsd's)")
	f.VarP(&o.timeout, "timeout", "W", "how long to wait for an answer")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print nothing but the header and the summary")
	f.BoolVar(&o.json, "json", false, "print JSON, one object per line")
	f.Uint16Var(&o.port, "port", rds.DefaultPort, "TCP port of RDS, here and on HOST (node provider)")
	f.StringVar(&o.wire, "wire", wireAuto, "transport: xrc, tcp, or auto for xrc if HOST has it (node provider)")
	f.StringVar(&o.provider, "provider", "", "node: a stack of its own, rdsd: the running daemon's, kernel: that of Linux (default: see above)")
	f.StringVar(&o.socket, "socket", "", "Unix socket of rdsd (default: $RDS_SOCKET, else rds.sock in /run/rds)")
	return cmd
}

// run is the command behind its flags. All its errors are of the set-up, but
// for an Exit.
func run(ctx context.Context, o *options) error {
	if o.size > rds.MaxMessage {
		return cli.Usagef("size %d: an RDS message has at most %d bytes", o.size, rds.MaxMessage)
	}
	if o.timeout == 0 {
		return cli.Usagef("timeout 0: no answer comes that fast")
	}
	remote, local, err := addresses(ctx, o.host, o.local)
	if err != nil {
		return cli.WithStatus(cli.StatusUsage, err)
	}
	out := newOutput(os.Stdout, o)
	p, err := newPinger(o, local, remote, out)
	if err != nil {
		return cli.WithStatus(cli.StatusUsage, err)
	}
	defer p.close()
	out.start(header{Host: o.host, Address: remote, Local: p.local, Size: int(o.size)})
	err = p.run(ctx)
	s := p.summary()
	out.summary(s)
	if err != nil {
		return cli.WithStatus(cli.StatusUsage, err)
	}
	if s.Received == 0 {
		return cli.Exit(cli.StatusFailed)
	}
	return nil
}
