package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/rds-go/rds/internal/bench"
)

func serverCommand() *cobra.Command {
	var (
		listen, cpu, mem string
		port             uint16
		child            bool
		onCPU            = string(bench.PinNone)
	)
	cmd := &cobra.Command{
		Use:   "server",
		Short: "The passive side, for clients on other hosts",
		Long: `Serves rdsbench clients, one after the other, until it is interrupted. The
client says over the control connection which RDS port, how many paths and which
congestion control to use.`,
		Example: `  rdsbench server --listen 192.0.2.7
  rdsbench mux --server 192.0.2.7 --baseline    # on the other host`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ip, err := netip.ParseAddr(listen)
			if err != nil {
				return usageError{fmt.Errorf("--listen: %q is no IP address", listen)}
			}
			if ip.IsUnspecified() {
				return usageError{errors.New("--listen: RDS needs an address of this host")}
			}
			if p := bench.Pin(onCPU); p != bench.PinNone {
				if err := newPinner().pin(p, true); err != nil {
					return err
				}
			}
			end, err := profile(cpu, mem)
			if err != nil {
				return err
			}
			return errors.Join(serve(cmd.Context(), ip, port, child), end())
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&listen, "listen", "127.0.0.1", "our IP address, for RDS and the control connection")
	fs.Uint16Var(&port, "control-port", bench.DefaultControlPort, "TCP port of the control connection")
	fs.StringVar(&cpu, "cpuprofile", "", "write a CPU profile to this `file`")
	fs.StringVar(&mem, "memprofile", "", "write an allocation profile to this `file`")
	fs.StringVar(&onCPU, "pin", onCPU, "CPU of the server in a pair: same, split, none")
	fs.BoolVar(&child, "child", false, "end with standard input, and say on standard output where the control connection is")
	fs.MarkHidden("child")
	return cmd
}

func serve(ctx context.Context, ip netip.Addr, port uint16, child bool) error {
	l, err := net.Listen("tcp", net.JoinHostPort(ip.String(), strconv.Itoa(int(port))))
	if err != nil {
		return err
	}
	s := bench.Server{IP: ip}
	if child {
		// The parent ends us; an interrupt on the terminal is for it to handle.
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		bench.WhenStdinEnds(cancel)
		err = json.NewEncoder(os.Stdout).Encode(bench.Ready{Control: l.Addr().(*net.TCPAddr).AddrPort()})
	} else {
		s.Log = func(line string) { fmt.Fprintln(os.Stderr, line) }
		s.Log("serving on " + l.Addr().String())
	}
	if err != nil {
		return errors.Join(err, l.Close())
	}
	return s.Serve(ctx, l)
}
