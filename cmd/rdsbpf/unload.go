package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

const unloadLong = `unload takes features out of the kernel, all of them or those that are named, and removes
their pins. Strangers get to rdsd again, which turns them away by itself.`

func unloadCommand(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use: "unload [admission] [telemetry] [handover]", Short: "Take features out of the kernel", Long: unloadLong,
		RunE: func(cmd *cobra.Command, args []string) error {
			list, _, err := chosen(args)
			if err != nil {
				return err
			}
			c, err := o.read()
			if err != nil {
				return err
			}
			var errs []error
			found := false
			for _, f := range list {
				err := f.unload(f.dir(c))
				switch {
				case missing(err):
					continue
				case err != nil:
					errs = append(errs, err)
				default:
					fmt.Fprintf(cmd.OutOrStdout(), "%s: unloaded\n", f.name)
				}
				found = true
			}
			if !found {
				return fmt.Errorf("nothing is loaded in %s", list[0].dir(c))
			}
			return errors.Join(errs...)
		},
	}
	directoriesFlag(cmd, o)
	return cmd
}

// said is an error that is told to users in other words.
func said(dir string, err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("no filter is loaded in %s: see rdsbpf load", dir)
	}
	return err
}
