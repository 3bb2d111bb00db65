// Command rdsbpf loads the programs of package ebpf into the kernel, shows what they do and
// takes them out again. It is the only program of this module that needs privilege for them:
// rdsd and rdsinfo use what rdsbpf has pinned.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/rds-go/rds/ebpf"
	"github.com/rds-go/rds/internal/cli"
)

const long = `rdsbpf loads programs into the kernel that help rdsd: they turn strangers away before
TCP answers them (admission). What is loaded is pinned in a directory of the BPF file system,
/sys/fs/bpf/rds or that of --dir, and stays until rdsbpf unload or the next boot, whatever
becomes of rdsbpf and rdsd. rdsd works without, too, and slower.

Several daemons on one host need a directory each: --dir here, admission.pins there.

Exit status: 0 if all was done, 1 if something could not be done, 2 for wrong flags or
settings.`

const examples = `  rdsbpf load --config /etc/rdsd.toml    what the configuration asks for
  rdsbpf load admission --deny silent    turn strangers away on all interfaces
  rdsbpf status                          what is loaded, and what this kernel has
  rdsbpf allow 10.0.0.0/24 fd00:1::/64   let more peers in; a running rdsd does it by itself
  rdsbpf watch                           who is turned away, every second
  rdsbpf unload                          take everything out`

// options are the flags that several commands have.
type options struct {
	dir  string // pins of all features; empty: of the configuration
	file string // configuration; empty: the defaults
	json bool
}

func main() { os.Exit(cli.Main(newCommand())) }

func newCommand() *cobra.Command {
	o := new(options)
	cmd := &cobra.Command{
		Use: "rdsbpf", Short: "Programs in the kernel that help rdsd", Long: long, Example: examples,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			return cli.Usagef("say what to do: load, unload, status, allow, deny or watch")
		},
	}
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.SetHelpCommand(&cobra.Command{Hidden: true})
	cmd.PersistentFlags().StringVar(&o.dir, "dir", "", "`directory` of the pins, on a BPF file system (default "+ebpf.DefaultDir+", with --config what that file says)")
	cmd.AddCommand(loadCommand(o), unloadCommand(o), statusCommand(o), allowCommand(o), denyCommand(o), watchCommand(o))
	return cmd
}

// read reads the configuration, and has the features pinned where --dir says if it is given.
func (o *options) read() (*config, error) {
	c, err := readConfig(o.file)
	if err != nil {
		return nil, cli.WithStatus(cli.StatusUsage, err)
	}
	if o.dir != "" {
		c.pinIn(o.dir)
	}
	return c, nil
}

// pins is the directory of the filter's pins where no configuration says another.
func (o *options) pins() string {
	if o.dir == "" {
		return ebpf.DefaultDir
	}
	return o.dir
}

// directoriesFlag is for commands that read the configuration for its directories alone.
func directoriesFlag(cmd *cobra.Command, o *options) {
	cmd.Flags().StringVar(&o.file, "config", "", "take the directories of pins from this TOML `file` of rdsd")
}

func jsonFlag(cmd *cobra.Command, o *options) {
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
}
