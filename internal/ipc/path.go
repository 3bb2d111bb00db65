package ipc

import "github.com/rds-go/rds/internal/sockpath"

// EnvPath is the environment variable that names the socket applications
// attach to.
const EnvPath = "RDS_SOCKET"

// systemPath is where the daemon of the host listens.
const systemPath = "/run/rds.sock"

var attachPath = sockpath.Name{Env: EnvPath, System: systemPath}

// FindPath returns the socket to attach to by default: $RDS_SOCKET, else
// /run/rds.sock if it exists, else rds.sock in $XDG_RUNTIME_DIR if that is set.
func FindPath() string { return attachPath.Find() }

// ServePath returns the socket to serve on by default: $RDS_SOCKET, else
// /run/rds.sock for root, else rds.sock in $XDG_RUNTIME_DIR. It is empty if
// there is none.
func ServePath() string { return attachPath.Serve() }
