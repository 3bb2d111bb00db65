package cli

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// GoodArgs returns the arguments without the flags that cmd does not have or cannot read, and
// an error for each of these: a command that is given many settings names all mistakes, not
// the first alone. What follows an unknown flag and looks like no flag is taken for its value. The
// variables of cmd's flags change.
func GoodArgs(cmd *cobra.Command, args []string) (good []string, wrong []error) {
	SetVersion(cmd)
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	f := cmd.Flags()
	for len(args) > 0 {
		if args[0] == "--" {
			return append(good, args...), wrong
		}
		n, err := 1, f.Parse(args[:1])
		missing, unknown := (*pflag.ValueRequiredError)(nil), (*pflag.NotExistError)(nil)
		switch {
		case errors.As(err, &missing) && len(args) > 1:
			n, err = 2, f.Parse(args[:2])
		case errors.As(err, &unknown) && len(args) > 1 && !strings.Contains(args[0], "=") && !strings.HasPrefix(args[1], "-"):
			n = 2
		}
		if err != nil {
			wrong = append(wrong, err)
		} else {
			good = append(good, args[:n]...)
		}
		args = args[n:]
	}
	return good, wrong
}
