package ipc

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"syscall"
	"time"
)

// Network is the network of package net that sessions use: a Unix socket of
// type SOCK_SEQPACKET, which keeps the bounds of messages.
const Network = "unixpacket"

// Errors of a Conn.
var (
	// ErrFrame: a message is too long, is no JSON, or lacks its descriptors.
	ErrFrame = errors.New("ipc: malformed message")
)

// Conn is a connection between application and daemon. One goroutine may send
// and one receive at a time.
type Conn struct {
	c   *net.UnixConn
	in  []byte
	oob []byte
}

// NewConn makes a Conn of c and owns it.
func NewConn(c *net.UnixConn) *Conn { return &Conn{c: c} }

// Dial connects to the daemon's socket.
func Dial(path string) (*Conn, error) {
	c, err := net.DialUnix(Network, nil, &net.UnixAddr{Name: path, Net: Network})
	if err != nil {
		return nil, err
	}
	return NewConn(c), nil
}

// Credentials are those of the process that connected, as the kernel took them
// down then (SO_PEERCRED).
type Credentials struct {
	PID      int
	UID, GID uint32
}

// Send sends v as JSON, with files.
func (c *Conn) Send(v any, files ...*os.File) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(b) > MaxFrame {
		return ErrFrame
	}
	var oob []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			rc, err := f.SyscallConn() // Fd would make it blocking
			if err != nil {
				return err
			}
			if err := rc.Control(func(fd uintptr) { fds[i] = int(fd) }); err != nil {
				return err
			}
		}
		oob = syscall.UnixRights(fds...)
	}
	_, _, err = c.c.WriteMsgUnix(b, oob, nil)
	runtime.KeepAlive(files)
	return err
}

// Receive reads a message into v. Descriptors that come with it are closed by
// the kernel.
func (c *Conn) Receive(v any) error {
	if c.in == nil {
		c.in = make([]byte, MaxFrame+1)
	}
	n, err := c.c.Read(c.in)
	if err != nil {
		return err
	}
	return decode(c.in[:n], v)
}

func decode(b []byte, v any) error {
	if len(b) == 0 {
		return io.EOF
	}
	if len(b) > MaxFrame {
		return ErrFrame
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%w: %v", ErrFrame, err)
	}
	return nil
}

// ReceiveFiles reads a message into v with the files that come with it, want of
// them unless v says otherwise through none.
func (c *Conn) ReceiveFiles(v any, want int) ([]*os.File, error) {
	b := make([]byte, MaxFrame+1)
	oob := make([]byte, syscall.CmsgSpace(4*want))
	n, oobn, _, _, err := c.c.ReadMsgUnix(b, oob)
	if err != nil {
		return nil, err
	}
	var files []*os.File
	if oobn > 0 {
		cmsgs, err := syscall.ParseSocketControlMessage(oob[:oobn])
		if err != nil {
			return nil, fmt.Errorf("%w: %v", ErrFrame, err)
		}
		for i := range cmsgs {
			fds, err := syscall.ParseUnixRights(&cmsgs[i])
			if err != nil {
				continue
			}
			for _, fd := range fds {
				syscall.CloseOnExec(fd)
				files = append(files, os.NewFile(uintptr(fd), "rds"))
			}
		}
	}
	if err := decode(b[:n], v); err != nil {
		CloseFiles(files)
		return nil, err
	}
	return files, nil
}

// CloseFiles closes all of them.
func CloseFiles(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// SetDeadline bounds Send and Receive.
func (c *Conn) SetDeadline(t time.Time) error { return c.c.SetDeadline(t) }

// Close ends the connection, and calls that wait on it.
func (c *Conn) Close() error { return c.c.Close() }
