package main

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rds-go/rds/ebpf"
	"github.com/rds-go/rds/internal/cli"
)

const listNote = `

The list is that of the filter in the kernel alone, for hosts without rdsd, such as those with
the RDS of Linux. A running rdsd writes its own list, admission.allow, when it starts, on every
SIGHUP and when a successor takes over: then that one counts. Connections that exist are not
looked at.`

const allowLong = `allow adds prefixes and addresses to the list of those that may connect. The first one on an
empty list keeps out everybody else.` + listNote

const denyLong = `deny takes prefixes and addresses off the list of those that may connect, as they are there.
An empty list lets everybody connect: the last prefix is only taken off with --everybody.` + listNote

func allowCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "allow PREFIX...", Short: "Add to the kernel's list of peers", Long: allowLong, Args: cli.Args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.change(cmd, args, func(list, more []netip.Prefix) ([]netip.Prefix, error) {
				return append(list, more...), nil
			})
		},
	}
}

func denyCommand(o *options) *cobra.Command {
	everybody := false
	cmd := &cobra.Command{
		Use: "deny PREFIX...", Short: "Take off the kernel's list of peers", Long: denyLong, Args: cli.Args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.change(cmd, args, func(list, less []netip.Prefix) ([]netip.Prefix, error) {
				var errs []error
				for _, p := range less {
					if !slices.Contains(list, p) {
						errs = append(errs, fmt.Errorf("%v is not on the list", p))
					}
				}
				list = slices.DeleteFunc(list, func(p netip.Prefix) bool { return slices.Contains(less, p) })
				if len(list) == 0 && len(errs) == 0 && !everybody {
					errs = append(errs, errors.New("the list would be empty, which lets everybody connect: --everybody if that is meant"))
				}
				return list, errors.Join(errs...)
			})
		},
	}
	cmd.Flags().BoolVar(&everybody, "everybody", false, "take off the last prefix, too: then everybody may connect")
	return cmd
}

// change changes the list of the pinned filter.
func (o *options) change(cmd *cobra.Command, args []string, change func(list, by []netip.Prefix) ([]netip.Prefix, error)) error {
	by, err := parse(args)
	if err != nil {
		return err
	}
	a, err := ebpf.OpenAdmission(o.pins())
	if err != nil {
		return said(o.pins(), err)
	}
	defer a.Close()
	list, err := a.Allow()
	if err != nil {
		return err
	}
	if list, err = change(list, by); err != nil {
		return err
	}
	if err := a.Set(list); err != nil {
		return err
	}
	s, err := a.Status()
	if err == nil {
		fmt.Fprintf(cmd.OutOrStdout(), "admission: %s\n", prefixes(s.Prefixes))
	}
	return err
}

// parse reads prefixes and addresses, in the form that the filter gives them back.
func parse(args []string) (list []netip.Prefix, err error) {
	for _, text := range args {
		p, err := netip.ParsePrefix(text)
		if err != nil && !strings.Contains(text, "/") {
			var a netip.Addr
			if a, err = netip.ParseAddr(text); err == nil {
				a = a.WithZone("")
				p = netip.PrefixFrom(a, a.BitLen())
			}
		}
		if a := p.Addr(); err == nil && a.Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
		}
		switch {
		case err != nil:
			return nil, cli.Usagef("%q is neither an address nor a prefix such as 10.0.0.0/24", text)
		case p != p.Masked():
			return nil, cli.Usagef("%q has bits behind its length: %v is the prefix, %v the address", text, p.Masked(), p.Addr())
		}
		list = append(list, p)
	}
	return list, nil
}
