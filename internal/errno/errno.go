package errno

import "syscall"

// Error is an error with a text of its own and the errno that a Linux RDS socket gives.
type Error struct {
	Text  string
	Errno syscall.Errno
}

func (e *Error) Error() string { return e.Text }

// Unwrap returns the errno.
func (e *Error) Unwrap() error { return e.Errno }

// Timeout is for net.Error: no such error is one.
func (e *Error) Timeout() bool { return false }

// Temporary tells whether the call may succeed later.
func (e *Error) Temporary() bool { return e.Errno == syscall.EAGAIN || e.Errno == syscall.ENOBUFS }
