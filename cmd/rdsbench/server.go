package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/rds-go/rds/internal/bench"
	"github.com/rds-go/rds/internal/cli"
)

func serverCommand() *cobra.Command {
	var (
		listen, socket, cpu, mem string
		port                     uint16
	)
	cmd := &cobra.Command{
		Use:   "server",
		Short: "The passive side, for clients on other hosts",
		Long: `Serves rdsbench clients, one after the other, until it is interrupted. The
client says over the control connection which RDS port, how many paths and which
congestion control to use. For clients of --provider rdsd it attaches to the
rdsd of this host.`,
		Example: `  rdsbench server --listen 192.0.2.7
  rdsbench mux --server 192.0.2.7 --baseline    # on the other host`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ip, err := localAddress(cmd.Context(), listen)
			if err != nil {
				return cli.Usage(err)
			}
			end, err := profile(cpu, mem)
			if err != nil {
				return err
			}
			s := bench.Server{IP: ip, Socket: socket, Log: func(line string) { fmt.Fprintln(os.Stderr, line) }}
			return errors.Join(serve(cmd.Context(), &s, port), end())
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&listen, "listen", "127.0.0.1", "our address or host name, for RDS and the control connection")
	fs.Uint16Var(&port, "control-port", bench.DefaultControlPort, "TCP port of the control connection")
	fs.StringVar(&socket, "socket", "", "Unix socket of the rdsd to attach to (default: $RDS_SOCKET, else rds.sock in /run/rds)")
	fs.StringVar(&cpu, "cpuprofile", "", "write a CPU profile to this `file`")
	fs.StringVar(&mem, "memprofile", "", "write an allocation profile to this `file`")
	return cmd
}

func serve(ctx context.Context, s *bench.Server, port uint16) error {
	l, err := net.Listen("tcp", net.JoinHostPort(s.IP.String(), strconv.Itoa(int(port))))
	if err != nil {
		return err
	}
	s.Log("serving on " + l.Addr().String())
	return s.Serve(ctx, l)
}

// childCommand is what rdsbench starts itself as: a server, an rdsd or an
// application. The parent says which over standard input, and ends it; an
// interrupt on the terminal is for the parent to handle.
func childCommand() *cobra.Command {
	var (
		listen, pin, cpu string
		client           bool
		procs            int
	)
	cmd := &cobra.Command{
		Use:    "child",
		Hidden: true,
		Args:   cli.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			ip, err := netip.ParseAddr(listen)
			if err != nil {
				return cli.Usage(err)
			}
			if p := bench.Pin(pin); p != bench.PinNone {
				if err := newPinner().pin(p, !client); err != nil {
					return err
				}
			}
			if procs > 0 && os.Getenv("GOMAXPROCS") == "" {
				runtime.GOMAXPROCS(procs)
			}
			end, err := profile(cpu, "")
			if err != nil {
				return err
			}
			s := bench.Server{IP: ip}
			return errors.Join(s.ServeParent(), end())
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "", "")
	cmd.Flags().StringVar(&pin, "pin", string(bench.PinNone), "")
	cmd.Flags().BoolVar(&client, "client", false, "")
	cmd.Flags().IntVar(&procs, "procs", 0, "")
	cmd.Flags().StringVar(&cpu, "cpuprofile", "", "")
	return cmd
}
