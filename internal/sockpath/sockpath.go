package sockpath

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Name is one kind of socket.
type Name struct {
	Env    string // environment variable that names the file
	EnvDir string // environment variable that replaces the directory of System; may be empty
	System string // the host's socket
	User   string // the socket of a user's daemon, below $XDG_RUNTIME_DIR
	Own    bool   // the socket has a directory of its own, which stays when the daemon stops
}

// none is the value of Env that means no socket.
const none = "none"

// Find returns the socket to connect to: what Env says, else the host's socket
// if that is there, else the user's if $XDG_RUNTIME_DIR is set. A socket that
// has a directory of its own is there while the directory is, whether a daemon
// serves it or not. The result there tells whether Env or such a file or
// directory says that there is a daemon.
func (n Name) Find() (path string, there bool) {
	if p := os.Getenv(n.Env); p != "" {
		return p, p != none
	}
	system, only := n.system()
	if n.exists(system) {
		return system, true
	}
	if p := n.user(); p != "" && !only {
		return p, n.exists(p)
	}
	return system, false
}

// Serve returns the socket to serve on: what Env or EnvDir says, else the host's
// for root, else the user's. It is empty if there is none.
func (n Name) Serve() string {
	if p := os.Getenv(n.Env); p != "" {
		return p
	}
	system, only := n.system()
	if only || os.Geteuid() == 0 {
		return system
	}
	return n.user()
}

// MakeDir makes the directory of path if it is one that Find looks into and is
// not there. Everybody may look into it.
func (n Name) MakeDir(path string) error {
	dir := filepath.Dir(path)
	system, _ := n.system()
	if dir != filepath.Dir(system) && dir != filepath.Dir(n.user()) {
		return nil
	}
	err := os.Mkdir(dir, 0o755)
	if err == nil {
		err = os.Chmod(dir, 0o755) // sets the mode whatever the umask is
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// system is the host's socket; only says that EnvDir has named its directory, so
// that no other is looked into.
func (n Name) system() (path string, only bool) {
	if n.EnvDir != "" {
		if dir := os.Getenv(n.EnvDir); dir != "" {
			return filepath.Join(dir, filepath.Base(n.System)), true
		}
	}
	return n.System, false
}

// exists tells whether a socket is there, as Find says.
func (n Name) exists(path string) bool {
	if n.Own {
		info, err := os.Stat(filepath.Dir(path))
		return err == nil && info.IsDir()
	}
	_, err := os.Lstat(path)
	return err == nil
}

func (n Name) user() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, n.User)
	}
	return ""
}
