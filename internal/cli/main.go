package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// Exit statuses of all commands.
const (
	StatusFailed = 1 // the command did not work
	StatusUsage  = 2 // the command could not begin: wrong flags or settings
)

// Exit is an error that is an exit status and nothing to print.
type Exit int

func (e Exit) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

type statusError struct {
	error
	status int
	hint   bool // the error says that --help may be worth a look
}

func (e statusError) Unwrap() error { return e.error }

// WithStatus gives err an exit status of its own.
func WithStatus(status int, err error) error {
	if err == nil {
		return nil
	}
	return statusError{err, status, false}
}

// Usage marks an error as a mistake in the command line: exit status 2, and
// the message points to --help.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return statusError{err, StatusUsage, true}
}

// Usagef is Usage of a formatted error.
func Usagef(format string, args ...any) error { return Usage(fmt.Errorf(format, args...)) }

// Args makes a mistake in the arguments that check finds a Usage error.
func Args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error { return Usage(check(cmd, args)) }
}

// Main runs cmd with the arguments of the process and returns its exit status.
func Main(cmd *cobra.Command) int { return Run(cmd, os.Args[1:]) }

// Run is Main with arguments of the caller's.
func Run(cmd *cobra.Command, args []string) int { return RunTo(cmd, args, os.Stderr) }

// RunTo is Run that says to stderr what went wrong.
func RunTo(cmd *cobra.Command, args []string, stderr io.Writer) int {
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return Usage(err) })
	cmd.SetArgs(args)
	SetVersion(cmd)
	err := cmd.Execute()
	if err == nil {
		return 0
	}
	var exit Exit
	if errors.As(err, &exit) {
		return int(exit)
	}
	se := statusError{status: StatusFailed}
	errors.As(err, &se)
	hint := ""
	if se.hint {
		hint = fmt.Sprintf(" (see %s --help)", cmd.Name())
	}
	fmt.Fprintf(stderr, "%s: %s%s\n", cmd.Name(), oneLine(err), hint)
	return se.status
}

// oneLine writes joined errors behind each other.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// IsTerminal tells whether f is a character device, which for the output of a
// command means a terminal.
func IsTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&fs.ModeCharDevice != 0
}
