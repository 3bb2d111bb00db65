package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rds-go/rds/internal/cli"
	"github.com/rds-go/rds/transport/iwarp"
)

const devinfoLong = `devinfo prints the limits of the device, as ibv_devinfo does. There is no
hardware to ask: they are those of this program, on every host.`

// device is what devinfo prints.
type device struct {
	Type       string `json:"type"` // device
	Transport  string `json:"transport"`
	MPA        int    `json:"mpa_revision"`
	MaxSend    int    `json:"max_send_wr"`
	MaxReceive int    `json:"max_recv_wr"`
	MaxCQ      int    `json:"max_cqe"`
	MaxInline  int    `json:"max_inline"`
	MaxSGE     int    `json:"max_sge"`
	MaxMessage uint64 `json:"max_message"`
	MaxReads   int    `json:"max_ird_ord"`
	MaxIRD     int    `json:"max_ird_of_peer"`
	MaxULPDU   int    `json:"max_ulpdu"`
	MaxPrivate int    `json:"max_private"`
	Extensions bool   `json:"rfc7306"`
}

func deviceLine(l iwarp.Limits) device {
	return device{Type: "device", Transport: "iWARP", MPA: 2, MaxSend: l.MaxSend, MaxReceive: l.MaxReceive, MaxCQ: l.MaxCQ, MaxInline: l.MaxInline,
		MaxSGE: l.MaxSGE, MaxMessage: l.MaxMessage, MaxReads: l.MaxReads, MaxIRD: l.MaxIRD, MaxULPDU: l.MaxULPDU, MaxPrivate: l.MaxPrivate, Extensions: l.Extensions}
}

func (d device) String() string {
	var b strings.Builder
	line := func(name string, value any) { fmt.Fprintf(&b, "%-18s%v\n", name+":", value) }
	line("transport", fmt.Sprintf("%s, MPA revisions 1 and %d", d.Transport, d.MPA))
	line("max_send_wr", d.MaxSend)
	line("max_recv_wr", d.MaxReceive)
	line("max_cqe", d.MaxCQ)
	line("max_inline", d.MaxInline)
	line("max_sge", fmt.Sprintf("%d, 1 of reads and atomics", d.MaxSGE))
	line("max_message", d.MaxMessage)
	line("max_ird, max_ord", d.MaxReads)
	line("raised by peers", fmt.Sprintf("ird to %d", d.MaxIRD))
	line("max_ulpdu", d.MaxULPDU)
	line("max_private", d.MaxPrivate)
	line("access", "local-write, remote-write, remote-read, remote-atomic")
	extensions := "no"
	if d.Extensions {
		extensions = "fetch-add, compare-swap (both masked), immediate data"
	}
	line("RFC 7306", extensions)
	return strings.TrimSuffix(b.String(), "\n")
}

func devinfoCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "devinfo", Short: "Print the limits of the device", Long: devinfoLong,
		Args: cli.Args(cobra.NoArgs),
		RunE: runner(func(context.Context, []string) error {
			dev, err := iwarp.Open(iwarp.Config{EventLoops: 1})
			if err != nil {
				return cli.WithStatus(cli.StatusUsage, err)
			}
			defer dev.Close()
			(&printer{w: os.Stdout, json: asJSON}).print(deviceLine(dev.Limits()))
			return nil
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
