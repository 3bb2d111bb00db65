package sockpath

import (
	"os"
	"path/filepath"
)

// Name is one kind of socket.
type Name struct {
	Env    string // environment variable that names the file
	System string // the host's
}

// Find returns the socket to connect to: what the variable says, else the
// host's if it exists, else the one in $XDG_RUNTIME_DIR if that is set.
func (n Name) Find() string {
	if p := os.Getenv(n.Env); p != "" {
		return p
	}
	if _, err := os.Lstat(n.System); err != nil {
		if p := n.user(); p != "" {
			return p
		}
	}
	return n.System
}

// Serve returns the socket to serve on: what the variable says, else the
// host's for root, else the one in $XDG_RUNTIME_DIR. It is empty if there is
// none.
func (n Name) Serve() string {
	if p := os.Getenv(n.Env); p != "" {
		return p
	}
	if os.Geteuid() == 0 {
		return n.System
	}
	return n.user()
}

func (n Name) user() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, filepath.Base(n.System))
	}
	return ""
}
