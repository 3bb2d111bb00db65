// Package cli is what the commands share: how they run, fail and exit, and the
// values of flags that the RDS tools of Linux write in their own way.
//
// A command is a cobra.Command whose RunE returns an error. Main runs it and
// turns the error into one line on standard error and an exit status: 0
// without an error, what WithStatus, Usage or an Exit say, else 1.
//
//	func main() { os.Exit(cli.Main(newCommand())) }
package cli
