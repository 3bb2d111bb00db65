// Command rdsd is the RDS of a host: applications attach to its socket and
// share its connections to other hosts. It answers pings on its addresses and
// shows what goes on in it to rdsinfo and Prometheus.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/rds-go/rds/internal/cli"
	"github.com/rds-go/rds/internal/logsink"
)

const long = `rdsd runs an RDS node on the given addresses until it is told to stop.
Applications attach to --socket and share its connections. It answers pings,
keeps its log on standard error, one line per change of state, and shows its
counters, sockets, connections, queues and applications to rdsinfo.

SIGTERM and SIGINT end it: what applications have sent gets the time of --drain
to be acknowledged, then it exits. A second signal ends it at once, with status
1. SIGHUP reads the file of --config again: limits of sessions, rules for ports,
the allow-list of peers, the log level and a shorter drain time take effect, other
changes are named in the log as needing a restart. SIGUSR2 starts a successor, the
program at the same path with the same arguments and --takeover.

--takeover takes the place of the rdsd that runs with the same addresses, ports, wire
and sockets, without a gap: what connects waits, applications go on, peers see a new
link only. The running daemon ends when this one serves; if this one fails, it goes on.

Hosts are given by address or name; a name is looked up when rdsd starts, for at
most 5 s. Of several addresses the first IPv4 address counts, and of those to listen
on the first that this host has. All mistakes are named at once.

Settings come from the flags, then the file given by --config, then the
defaults. docs/OPERATIONS.md in the sources describes them all, and
cmd/rdsd/rdsd.toml has them at their defaults. Sockets may come from systemd.

Exit status: 0 after a signal, 1 if it failed or was ended twice, 64 if its flags are
wrong, 78 if its settings are.`

const examples = `  rdsd --listen 10.0.0.1
  rdsd --listen 10.0.0.1,10.0.1.1 --npaths 8
  rdsd --listen 10.0.0.1 --peer 10.0.0.7=tcp --peer 10.0.0.8=tcp
  rdsd --listen 10.0.0.1 --allow 10.0.0.0/24
  rdsd --listen 127.0.0.2 --port 17000 --control /tmp/rdsd.sock --log-level debug
  rdsd --config /etc/rdsd.toml`

// Exit statuses of a daemon that cannot begin (sysexits.h). A service manager does not try again after
// these. They are none of the Go runtime, which ends a process that panics with 2.
const (
	statusUsage  = 64
	statusConfig = 78
)

func main() {
	args, wrong := cli.GoodArgs(newCommand(nil), os.Args[1:])
	// Standard error may take nothing, which must not keep the process from ending.
	sink := logsink.New(os.Stderr, func(uint64) []byte { return nil })
	status := cli.RunTo(newCommand(wrong), args, sink)
	sink.Close(flushTime)
	if status == cli.StatusUsage {
		status = statusUsage
	}
	os.Exit(status)
}

// newCommand is the command, with what was wrong with its flags.
func newCommand(wrong []error) *cobra.Command {
	var (
		file     string
		takeover bool
		set      = defaults()
	)
	cmd := &cobra.Command{
		Use: "rdsd --listen HOST[,HOST...] [flags]", Short: "RDS daemon", Long: long, Example: examples,
	}
	f := cmd.Flags()
	f.StringVar(&file, "config", "", "read settings from this TOML `file`")
	f.BoolVar(&takeover, "takeover", false, "take the place of the rdsd that runs, without a gap")
	f.StringSliceVar(&set.Listen, "listen", nil, "local `addresses` or names to listen on, separated by commas")
	f.IntVar(&set.Port, "port", set.Port, "TCP port of RDS over TCP, here and on peers; Linux knows only the default")
	f.StringVar(&set.Wire, "wire", set.Wire, "transport to peers: xrc, tcp, or auto for xrc with those that have it")
	f.StringSliceVar(&set.Peers, "peer", set.Peers, "what serves one peer, as `HOST=tcp` or HOST=xrc; may be repeated")
	f.StringSliceVar(&set.Admission.Allow, "allow", set.Admission.Allow, "`prefix` or host of peers that are allowed, and nobody else; may be repeated")
	f.StringVar(&set.Admission.Kernel, "admission-kernel", set.Admission.Kernel, "filter of strangers in the kernel, loaded by rdsbpf: auto, require or off")
	f.StringVar(&set.Admission.Pins, "admission-pins", set.Admission.Pins, "`directory` that rdsbpf has pinned it in")
	f.IntVar(&set.XRC.Port, "xrc-port", set.XRC.Port, "TCP port of RDS on XRC, here and on peers; 0 is 18634, or beside a --port")
	f.Var(&set.XRC.CRC, "xrc-crc", "CRC of RDS on XRC besides TCP's checksum: on, off, or auto for on between hosts")
	f.Lookup("xrc-crc").NoOptDefVal = crcOn
	f.IntVar(&set.Paths, "npaths", set.Paths, "TCP connections per peer: 1 or 8")
	f.StringVar(&set.Socket, "socket", set.Socket, "Unix socket that applications attach to; none for no socket")
	f.StringVar(&set.Control, "control", set.Control, "Unix socket for rdsinfo; none for no socket")
	f.StringVar(&set.Metrics, "metrics", set.Metrics, "`address` and port for Prometheus, such as 127.0.0.1:9385")
	f.BoolVar(&set.Pprof, "pprof", set.Pprof, "show profiles on the control socket")
	f.Var(&set.Drain, "drain", "how long to wait for unacknowledged messages at the end")
	f.StringVar(&set.Log.Level, "log-level", set.Log.Level, "debug, info, warn or error")
	f.StringVar(&set.Log.Format, "log-format", set.Log.Format, "console or json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		for _, a := range args {
			wrong = append(wrong, fmt.Errorf("unexpected argument %q", a))
		}
		loaded, reading := set, error(nil)
		var load func() (settings, error)
		if file != "" {
			load = func() (settings, error) {
				fromFile := defaults()
				err := fromFile.load(file)
				return overlay(fromFile, set, f.Changed), err
			}
			loaded, reading = load()
		}
		if len(wrong) > 0 {
			_, err := loaded.planAfter(reading)
			return cli.Usage(errors.Join(append(wrong, err)...))
		}
		return start(loaded, reading, load, takeover)
	}
	return cmd
}

// overlay returns file with the settings of the flags that were given.
func overlay(file, flags settings, given func(flag string) bool) settings {
	for flag, take := range map[string]func(){
		"listen": func() { file.Listen = flags.Listen },
		"port":   func() { file.Port = flags.Port },
		"wire":   func() { file.Wire = flags.Wire },
		"peer":   func() { file.Peers = flags.Peers },
		"allow":  func() { file.Admission.Allow = flags.Admission.Allow },

		"admission-kernel": func() { file.Admission.Kernel = flags.Admission.Kernel },
		"admission-pins":   func() { file.Admission.Pins = flags.Admission.Pins },

		"xrc-port":   func() { file.XRC.Port = flags.XRC.Port },
		"xrc-crc":    func() { file.XRC.CRC = flags.XRC.CRC },
		"npaths":     func() { file.Paths = flags.Paths },
		"socket":     func() { file.Socket = flags.Socket },
		"control":    func() { file.Control = flags.Control },
		"metrics":    func() { file.Metrics = flags.Metrics },
		"pprof":      func() { file.Pprof = flags.Pprof },
		"drain":      func() { file.Drain = flags.Drain },
		"log-level":  func() { file.Log.Level = flags.Log.Level },
		"log-format": func() { file.Log.Format = flags.Log.Format },
	} {
		if given(flag) {
			take()
		}
	}
	return file
}
