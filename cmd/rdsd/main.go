// Command rdsd is a long-running RDS node: it answers pings on its addresses
// and shows what goes on in it to rdsinfo.
package main

import (
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/rds-go/rds/internal/cli"
	"github.com/rds-go/rds/rds"
)

const long = `rdsd runs an RDS node on the given addresses until it is told to stop. It
answers pings, keeps its log on standard error, one line per change of state,
and shows its counters, sockets, connections and queues to rdsinfo.

SIGTERM and SIGINT end it: unacknowledged messages get the time of --drain,
then it exits. A second signal ends it at once, with status 1. SIGHUP is
logged, nothing more.

Settings come from the flags, then the file given by --config, then the
defaults. cmd/rdsd/rdsd.toml in the sources describes them all.

Exit status: 0 after a signal, 1 if it failed or was ended twice, 2 if its
flags or settings are wrong.`

const examples = `  rdsd --listen 10.0.0.1
  rdsd --listen 10.0.0.1,10.0.1.1 --npaths 8
  rdsd --listen 127.0.0.2 --port 17000 --control /tmp/rdsd.sock --log-level debug
  rdsd --config /etc/rdsd.toml`

func main() { os.Exit(cli.Main(newCommand())) }

func newCommand() *cobra.Command {
	var (
		file string
		set  = defaults()
	)
	cmd := &cobra.Command{
		Use: "rdsd --listen IP[,IP...] [flags]", Short: "RDS daemon", Long: long, Example: examples,
		Args: cli.Args(cobra.NoArgs),
	}
	f := cmd.Flags()
	f.StringVar(&file, "config", "", "read settings from this TOML `file`")
	f.StringSliceVar(&set.Listen, "listen", nil, "local `addresses` to listen on, separated by commas")
	f.IntVar(&set.Port, "port", set.Port, "TCP port of RDS, here and on peers; Linux knows only the default")
	f.IntVar(&set.Paths, "npaths", set.Paths, "TCP connections per peer: 1 or 8")
	f.StringVar(&set.Control, "control", set.Control, "Unix socket for rdsinfo; none for no socket")
	f.Var(&set.Drain, "drain", "how long to wait for unacknowledged messages at the end")
	f.StringVar(&set.Log.Level, "log-level", set.Log.Level, "debug, info, warn or error")
	f.StringVar(&set.Log.Format, "log-format", set.Log.Format, "console or json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if file != "" {
			fromFile := defaults()
			if err := fromFile.load(file); err != nil {
				return cli.WithStatus(cli.StatusUsage, err)
			}
			set = overlay(fromFile, set, f.Changed)
		}
		return start(set)
	}
	return cmd
}

// overlay returns file with the settings of the flags that were given.
func overlay(file, flags settings, given func(flag string) bool) settings {
	for flag, take := range map[string]func(){
		"listen":     func() { file.Listen = flags.Listen },
		"port":       func() { file.Port = flags.Port },
		"npaths":     func() { file.Paths = flags.Paths },
		"control":    func() { file.Control = flags.Control },
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

// start runs the daemon from its settings to the end.
func start(set settings) error {
	cfg, err := set.node()
	if err != nil {
		return cli.WithStatus(cli.StatusUsage, err)
	}
	log, err := set.Log.logger(os.Stderr)
	if err != nil {
		return cli.WithStatus(cli.StatusUsage, err)
	}
	cfg.Logger = log
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	node, err := rds.NewNode(cfg)
	if err != nil {
		return explain(err, set)
	}
	d := daemon{
		node: node, log: log, signals: signals, notify: systemd(os.Getenv("NOTIFY_SOCKET")),
		drain: set.Drain.Duration + drainMargin,
	}
	return d.run(strings.Join(set.Listen, ","), cfg.Control)
}
