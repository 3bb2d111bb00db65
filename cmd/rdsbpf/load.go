package main

import (
	"errors"
	"fmt"
	"io"
	"os/user"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/rds-go/rds/ebpf"
	"github.com/rds-go/rds/internal/cli"
)

const loadLong = `load loads features into the kernel and pins them. Without names these are the ones that
the configuration asks for: admission, and the handover if handover.kernel is "require", or is
"auto" and listen has a prefix. A feature that is named is loaded, or load fails. With
kernel = "auto" in the file a feature that the kernel does not have, or that this user may not
load, is said in a line and is no failure; with "require" it is.

What is loaded already stays as it is if nothing else is asked for. Otherwise the new takes the
place of the old without a gap, with the same list of peers and the same counts. A first list
is empty and lets everybody connect: rdsd writes its own, or rdsbpf allow does.

Several daemons may share a handover. Unless it is named, one that is there keeps its owner and
group, and more ports than are asked for; one that is in use with other ports, or in another
network namespace, stays as it is.

Telemetry is only loaded if it is named: it costs each connection a little. The group of
--owner may read it.

The BPF file system is mounted at /sys/fs/bpf if it is not there.`

// loadOptions are the flags of load, and the configuration.
type loadOptions struct {
	*options
	deny       string
	ports      []uint
	netns      string
	interfaces []string
	owner      string
	uid, gid   int // numbers of the owner and of its group
	group      string
	groupID    int  // number of --group; 0: no group
	named      bool // the features to load are named
	config     *config
}

func loadCommand(o *options) *cobra.Command {
	l := &loadOptions{options: o}
	cmd := &cobra.Command{
		Use: "load [admission] [telemetry] [handover]", Short: "Load features into the kernel", Long: loadLong,
		RunE: func(cmd *cobra.Command, args []string) error {
			return l.run(args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&l.file, "config", "", "take ports, [admission] and [handover] from this TOML `file` of rdsd")
	f.StringVar(&l.deny, "deny", "", "what strangers get: silent for no answer, refuse for a reset")
	f.UintSliceVar(&l.ports, "port", nil, "TCP `port` of this host to filter; may be repeated (default 16385 and 18634)")
	f.StringVar(&l.netns, "netns", "", "network namespace to filter: a `file` such as /run/netns/blue")
	f.StringSliceVar(&l.interfaces, "interface", nil, "interfaces to filter with deny silent, by `name`; may be repeated (default all but loopback)")
	f.StringVar(&l.owner, "owner", "root", "`user` who may change the list besides root: the one that rdsd runs as")
	f.StringVar(&l.group, "group", "", "`group` that may register listening sockets with the handover besides the owner: of rdsds that run as several users")
	return cmd
}

// check reads the configuration and what the flags say instead.
func (l *loadOptions) check() (err error) {
	if l.config, err = l.read(); err != nil {
		return err
	}
	a := &l.config.Admission
	l.dir = a.Pins
	if l.deny != "" {
		a.Deny = l.deny
	}
	if len(l.interfaces) > 0 {
		a.Interfaces = l.interfaces
	}
	if err := l.config.check(); err != nil {
		return cli.Usage(err)
	}
	for _, p := range l.ports {
		if p == 0 || p > 65535 {
			return cli.Usagef("%d is no TCP port", p)
		}
	}
	u, err := user.Lookup(l.owner)
	if err != nil {
		if u, err = user.LookupId(l.owner); err != nil {
			return cli.Usagef("no user %q on this host", l.owner)
		}
	}
	if l.gid, err = strconv.Atoi(u.Gid); err != nil {
		return err
	}
	if l.uid, err = strconv.Atoi(u.Uid); err != nil || l.group == "" {
		return err
	}
	g, err := user.LookupGroup(l.group)
	if err != nil {
		if g, err = user.LookupGroupId(l.group); err != nil {
			return cli.Usagef("no group %q on this host", l.group)
		}
	}
	l.groupID, err = strconv.Atoi(g.Gid)
	return err
}

func (l *loadOptions) run(names []string, stdout, stderr io.Writer) error {
	list, named, err := chosen(names)
	if err != nil {
		return err
	}
	l.named = named
	if err := l.check(); err != nil {
		return err
	}
	var errs []error
	for _, f := range list {
		if !named && (f.asked == nil || !f.asked(l.config)) {
			continue
		}
		mode := f.mode(l.config)
		if named && l.file == "" {
			mode = modeRequire
		}
		if mode == modeOff {
			fmt.Fprintf(stdout, "%s: off in the configuration: nothing loaded\n", f.name)
			if _, _, err := f.status(f.dir(l.config)); !missing(err) {
				fmt.Fprintf(stderr, "rdsbpf: %s was loaded into %s before and stays: rdsbpf unload takes it out\n", f.name, f.dir(l.config))
			}
			continue
		}
		line, err := l.load(f)
		switch {
		case err == nil:
			fmt.Fprintf(stdout, "%s: %s\n", f.name, line)
		case mode == modeAuto && (errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, ebpf.ErrPermission) || errors.Is(err, syscall.EBUSY)):
			fmt.Fprintf(stdout, "%s: not loaded, rdsd does without: %v\n", f.name, err)
		default:
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (l *loadOptions) load(f feature) (string, error) {
	if _, err := ebpf.Mount(f.dir(l.config)); err != nil {
		return "", err
	}
	return f.load(l)
}

// portsOr are the ports of the flags, or others where there are none.
func (l *loadOptions) portsOr(others []uint16) (ports []uint16) {
	for _, p := range l.ports {
		ports = append(ports, uint16(p))
	}
	if ports == nil {
		return others
	}
	return ports
}
