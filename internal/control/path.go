package control

import (
	"os"
	"path/filepath"
)

// EnvPath is the environment variable that names the socket file of commands
// which are not told one.
const EnvPath = "RDS_CONTROL"

// systemPath is where the daemon of the host answers.
const systemPath = "/run/rdsd.sock"

// FindPath returns the path to Fetch from by default: $RDS_CONTROL, else
// /run/rdsd.sock if it exists, else rdsd.sock in $XDG_RUNTIME_DIR if that is
// set.
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

// ServePath returns the path to Serve on by default: $RDS_CONTROL, else
// /run/rdsd.sock for root, else rdsd.sock in $XDG_RUNTIME_DIR. It is empty if
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
		return filepath.Join(dir, "rdsd.sock")
	}
	return ""
}
