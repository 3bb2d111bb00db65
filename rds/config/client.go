package config

import "time"

// Client is what a Client is told once.
type Client struct {
	// Path is the daemon's socket: "" means $RDS_SOCKET, else rds.sock in the
	// runtime directory: $RDS_RUNTIME_DIR if that is set, else /run/rds if it
	// exists, else rds in $XDG_RUNTIME_DIR.
	Path string
	// Reconnect makes the Client attach to the next daemon when the one it has
	// ends, and bind its sockets there again. Each socket reports the loss
	// once, to a receiving or to a sending call: what is blocked then fails
	// with ErrDaemonLost. Later calls wait for the new daemon. What a daemon that was
	// stopped or killed has not begun to take is submitted to the next one.
	Reconnect bool
	// ReconnectMin and ReconnectMax bound the back-off between attempts: 10 ms
	// and 1 s. In the first 10 s after the end of a daemon it is 50 ms at most.
	ReconnectMin, ReconnectMax time.Duration
}
