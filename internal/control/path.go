package control

import "github.com/rds-go/rds/internal/sockpath"

// envPath is the environment variable that names the socket file of commands
// which are not told one.
const envPath = "RDS_CONTROL"

// systemPath is where the daemon of the host answers.
const systemPath = "/run/rdsd.sock"

var controlPath = sockpath.Name{Env: envPath, System: systemPath, User: "rdsd.sock"}

// FindPath returns the path to Fetch from by default: $RDS_CONTROL, else
// /run/rdsd.sock if it exists, else rdsd.sock in $XDG_RUNTIME_DIR if that is
// set.
func FindPath() string {
	path, _ := controlPath.Find()
	return path
}

// ServePath returns the path to Serve on by default: $RDS_CONTROL, else
// /run/rdsd.sock for root, else rdsd.sock in $XDG_RUNTIME_DIR. It is empty if
// there is none.
func ServePath() string { return controlPath.Serve() }
