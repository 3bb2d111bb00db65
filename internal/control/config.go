package control

import (
	"io/fs"
	"net"
	"net/http"
	"time"
)

// DefaultMode is the socket file's: its owner and group may look.
const DefaultMode fs.FileMode = 0o660

// Config says where to serve, for whom, and what besides the snapshot.
type Config struct {
	// Path is the socket file, which Serve creates and Close removes.
	Path string
	// Mode and Group are the socket file's permissions. A mode of 0 means
	// DefaultMode, a group of 0 that of the process.
	Mode  fs.FileMode
	Group int
	// Listener, if not nil, is served on instead of Path. Close closes it and
	// leaves its socket file alone, which belongs to whoever made it.
	Listener net.Listener
	// Adopt has Close remove the socket file at Path although there is a Listener: another
	// process has made both and passed them on.
	Adopt bool
	// With makes a snapshot with parts that the request names and that other snapshots lack.
	// Parts that the server does not know are left out. Without With all are.
	With func(parts []string) (any, error)
	// Extra handlers by the prefix of their paths, such as "/debug/pprof/".
	// They must end when their request's context does.
	Extra map[string]http.Handler

	readTimeout time.Duration // set by tests; 0: the constant readTimeout
}

// listener is what to accept on; the file is nil if it is not ours.
func (c Config) listener() (net.Listener, *socketFile, error) {
	if c.Listener != nil {
		if c.Adopt {
			if f := Adopt(c.Path); f != nil {
				return c.Listener, f.f, nil
			}
		}
		return c.Listener, nil, nil
	}
	mode := c.Mode
	if mode == 0 {
		mode = DefaultMode
	}
	l, file, err := listen(c.Path, mode, c.Group)
	if err != nil {
		return nil, nil, err
	}
	return l, file, nil
}
