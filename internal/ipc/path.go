package ipc

import (
	"os"
	"path/filepath"
)

// EnvPath is the environment variable that names the socket applications
// attach to.
const EnvPath = "RDS_SOCKET"

// systemPath is where the daemon of the host listens.
const systemPath = "/run/rds.sock"

// FindPath returns the socket to attach to by default: $RDS_SOCKET, else
// /run/rds.sock if it exists, else rds.sock in $XDG_RUNTIME_DIR if that is set.
func FindPath() string {
	if p := os.Getenv(EnvPath); p != "" {
		return p
	}
	if _, err := os.Lstat(systemPath); err != nil {
		if p := userPath(); p != "" {
			return p
		}
	}
	return systemPath
}

// ServePath returns the socket to serve on by default: $RDS_SOCKET, else
// /run/rds.sock for root, else rds.sock in $XDG_RUNTIME_DIR. It is empty if
// there is none.
func ServePath() string {
	if p := os.Getenv(EnvPath); p != "" {
		return p
	}
	if os.Geteuid() == 0 {
		return systemPath
	}
	return userPath()
}

func userPath() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, "rds.sock")
	}
	return ""
}
