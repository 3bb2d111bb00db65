package control

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// ErrInUse: a live server has the socket file (EADDRINUSE).
var ErrInUse = fmt.Errorf("a running node answers there: %w", syscall.EADDRINUSE)

// errNotSocket: what has the name is something else, and is left alone.
var errNotSocket = errors.New("the file exists and is no socket")

// maxPath keeps the name and its temporary suffix within sockaddr_un.
const maxPath = 96

// probeTimeout bounds the wait for a server that does not accept.
const probeTimeout = time.Second

// socketFile is the name of a listening socket, as this process created it.
type socketFile struct {
	path string
	info fs.FileInfo
}

// listen returns a listener whose socket file is path, which may be that of a
// socket without a server. Mode and group are the file's; a group of 0 is left
// as it comes.
//
// The socket is bound and made to listen under a temporary name and then
// renamed: whoever sees path sees a live socket with its final mode. Between
// the look at what is there and the renaming nobody else may do the same, so
// that happens under a lock of the directory.
func listen(path string, mode fs.FileMode, group int) (*net.UnixListener, *socketFile, error) {
	return listenOn("unix", path, mode, group)
}

func listenOn(network, path string, mode fs.FileMode, group int) (*net.UnixListener, *socketFile, error) {
	fail := func(err error) (*net.UnixListener, *socketFile, error) {
		return nil, nil, fmt.Errorf("socket %s: %w", path, err)
	}
	if len(path) > maxPath {
		return fail(fmt.Errorf("path longer than %d bytes: %w", maxPath, syscall.ENAMETOOLONG))
	}
	defer lockDir(filepath.Dir(path))()
	if err := dead(network, path); err != nil {
		return fail(err)
	}
	temp := path + "." + rand.Text()[:8]
	l, err := net.ListenUnix(network, &net.UnixAddr{Name: temp, Net: network})
	if err != nil {
		return fail(cause(err))
	}
	l.SetUnlinkOnClose(false)
	info, err := install(temp, path, mode, group)
	if err != nil {
		l.Close()
		_ = os.Remove(temp)
		return fail(err)
	}
	return l, &socketFile{path, info}, nil
}

// install gives the socket temp its group, then its mode, so that no group gets
// the permissions of another, and last its name.
func install(temp, path string, mode fs.FileMode, group int) (fs.FileInfo, error) {
	if group != 0 {
		if err := os.Chown(temp, -1, group); err != nil {
			return nil, fmt.Errorf("group %d: %w", group, cause(err))
		}
	}
	if err := os.Chmod(temp, mode); err != nil {
		return nil, cause(err)
	}
	info, err := os.Lstat(temp)
	if err != nil {
		return nil, cause(err)
	}
	if err := os.Rename(temp, path); err != nil {
		return nil, cause(err)
	}
	return info, nil
}

// dead returns nil if path is a socket that nobody listens on, or is gone.
func dead(network, path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return cause(err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return errNotSocket
	}
	c, err := net.DialTimeout(network, path, probeTimeout)
	switch {
	case err == nil:
		c.Close()
		return ErrInUse
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, syscall.EAGAIN): // the listen queue of a live socket is full
		return ErrInUse
	}
	return cause(err)
}

// SocketFile is the name of a socket made by Listen.
type SocketFile struct{ f *socketFile }

// Path is the file's.
func (f *SocketFile) Path() string { return f.f.path }

// Remove removes the file unless it is another's by now.
func (f *SocketFile) Remove() { f.f.remove() }

// Listen makes a Unix socket of another kind, "unixpacket", in the way Serve
// makes its own.
func Listen(network, path string, mode fs.FileMode) (*net.UnixListener, *SocketFile, error) {
	l, f, err := listenOn(network, path, mode, 0)
	if err != nil {
		return nil, nil, err
	}
	return l, &SocketFile{f}, nil
}

// remove removes the file unless it is another's by now.
func (f *socketFile) remove() {
	if now, err := os.Lstat(f.path); err == nil && os.SameFile(now, f.info) {
		_ = os.Remove(f.path) // a file that stays is found stale later
	}
}

// cause strips the operation and the file names, temporary ones among them.
func cause(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}

// Adopt returns the socket file at path, which another process has made and passed its
// listener of; nil if there is none.
func Adopt(path string) *SocketFile {
	info, err := os.Lstat(path)
	if err != nil {
		return nil
	}
	return &SocketFile{&socketFile{path, info}}
}
