package ipc

import "github.com/rds-go/rds/internal/sockpath"

// envPath is the environment variable that names the socket to attach to; none
// means that there is no daemon.
const envPath = "RDS_SOCKET"

// envDir is the environment variable that names the runtime directory in place
// of /run/rds.
const envDir = "RDS_RUNTIME_DIR"

// attachPath: the runtime directory says that the host has an rdsd. It stays
// when rdsd stops.
var attachPath = sockpath.Name{Env: envPath, EnvDir: envDir, System: "/run/rds/rds.sock", User: "rds/rds.sock", Own: true}

// FindPath returns the socket to attach to by default, and whether this host
// has an rdsd, running or not. The socket is $RDS_SOCKET, else rds.sock in the
// runtime directory: $RDS_RUNTIME_DIR if that is set, else /run/rds if it
// exists, else rds in $XDG_RUNTIME_DIR. The host has an rdsd if $RDS_SOCKET is
// set, to something else than none, or the runtime directory exists.
func FindPath() (path string, has bool) { return attachPath.Find() }

// ServePath returns the socket to serve on by default: $RDS_SOCKET, else
// rds.sock in the runtime directory: $RDS_RUNTIME_DIR, else /run/rds for root,
// else rds in $XDG_RUNTIME_DIR. It is empty if there is none.
func ServePath() string { return attachPath.Serve() }

// MakeDir makes the directory of the socket path if that is a runtime directory.
func MakeDir(path string) error { return attachPath.MakeDir(path) }
