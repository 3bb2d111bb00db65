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
	c     controlSocket
	in    []byte     // memory of Receive
	max   int        // most bytes that Receive takes; 0: maxFrame
	place *InProcess // nil: the other end is in another process, or may be
}

// controlSocket is what a Conn needs of a *net.UnixConn.
type controlSocket interface {
	net.Conn
	syscall.Conn
	WriteMsgUnix(b, oob []byte, addr *net.UnixAddr) (n, oobn int, err error)
	ReadMsgUnix(b, oob []byte) (n, oobn, flags int, addr *net.UnixAddr, err error)
	File() (*os.File, error)
}

// NewConn makes a Conn of c and owns it.
func NewConn(c *net.UnixConn) *Conn { return &Conn{c: c} }

// Dial connects to the daemon's socket.
func Dial(path string) (*Conn, error) {
	if p := InProcessAt(path); p != nil {
		return p.dial()
	}
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
	Groups   []uint32 // supplementary (SO_PEERGROUPS)
}

// Send sends v as JSON, with files.
func (c *Conn) Send(v any, files ...*os.File) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(b) > maxFrame {
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

// Receive reads a message into v; at the end of the connection, and after an
// empty message, it returns io.EOF. Descriptors that come with it are closed by
// the kernel, for there is no room for them.
func (c *Conn) Receive(v any) error {
	in := c.buffer()
	n, err := c.c.Read(in)
	if err != nil {
		return err
	}
	return decode(in[:n], c.max, v)
}

// buffer is the memory of Receive, with room for one byte more than it takes.
func (c *Conn) buffer() []byte {
	if c.in == nil {
		if c.max == 0 {
			c.max = maxFrame
		}
		c.in = make([]byte, c.max+1)
	}
	return c.in
}

// Bound makes Receive refuse what is longer than a call, before its first call:
// a daemon has a buffer for each of its applications.
func (c *Conn) Bound() { c.max = maxCall }

func decode(b []byte, max int, v any) error {
	if len(b) == 0 {
		return io.EOF
	}
	if len(b) > max {
		return ErrFrame
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%w: %v", ErrFrame, err)
	}
	return nil
}

// ReceiveFiles reads a message into v with the files that come with it: want
// of them, or none, with which a refusal comes. Any other number is an error.
// The caller owns the files.
func (c *Conn) ReceiveFiles(v any, want int) ([]*os.File, error) {
	b := c.buffer()
	oob := make([]byte, syscall.CmsgSpace(4*want))
	n, oobn, flags, _, err := c.c.ReadMsgUnix(b, oob)
	files := openRights(oob[:oobn]) // an empty message may bring some, too
	switch {
	case errors.Is(err, io.EOF): // package net wraps it here, and does not in Read
		err = io.EOF
	case err != nil:
	case flags&syscall.MSG_CTRUNC != 0 || len(files) != 0 && len(files) != want:
		err = fmt.Errorf("%w: not %d descriptors", ErrFrame, want)
	default:
		err = decode(b[:n], c.max, v)
	}
	if err != nil {
		CloseFiles(files)
		return nil, err
	}
	return files, nil
}

// ReceiveFile reads a message into v, with the first file that comes with it; nil: none does. Others
// are closed, by the kernel as far as there is no room for them. The caller owns the file.
func (c *Conn) ReceiveFile(v any) (*os.File, error) {
	b := c.buffer()
	oob := make([]byte, syscall.CmsgSpace(4))
	n, oobn, _, _, err := c.c.ReadMsgUnix(b, oob)
	files := openRights(oob[:oobn])
	if errors.Is(err, io.EOF) { // package net wraps it here, and does not in Read
		err = io.EOF
	}
	if err == nil {
		err = decode(b[:n], c.max, v)
	}
	switch {
	case err != nil:
		CloseFiles(files)
		return nil, err
	case len(files) == 0:
		return nil, nil
	}
	CloseFiles(files[1:])
	return files[0], nil
}

// openRights makes files of all descriptors in a control message. Package net
// has received them close-on-exec.
func openRights(oob []byte) []*os.File {
	var files []*os.File
	cmsgs, _ := syscall.ParseSocketControlMessage(oob) // the kernel wrote it
	for i := range cmsgs {
		fds, _ := syscall.ParseUnixRights(&cmsgs[i]) // fails for other kinds
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "rds"))
		}
	}
	return files
}

// CloseFiles closes all of them.
func CloseFiles(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// File returns a descriptor of the connection, to be passed to another process. Whoever
// has the descriptor closes it.
func (c *Conn) File() (*os.File, error) { return c.c.File() }

// OpenConn makes a Conn of a descriptor that was passed, and closes f.
func OpenConn(f *os.File) (*Conn, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		c.Close()
		return nil, fmt.Errorf("%w: a descriptor that is no Unix socket", ErrFrame)
	}
	return NewConn(u), nil
}

// SetReadDeadline bounds Receive. One that ends by the deadline has taken nothing.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.c.SetReadDeadline(t) }

// SetDeadline bounds Send and Receive.
func (c *Conn) SetDeadline(t time.Time) error { return c.c.SetDeadline(t) }

// SetWriteDeadline bounds Send.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.c.SetWriteDeadline(t) }

// Close ends the connection, and calls that wait on it.
func (c *Conn) Close() error { return c.c.Close() }
