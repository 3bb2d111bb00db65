package main

import (
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/coreos/go-systemd/v22/activation"

	"github.com/rds-go/rds/internal/ipc"
)

// The names of inherited sockets, FileDescriptorName= in a socket unit.
const (
	attachName  = "attach"
	controlName = "control"
)

// inherited are the listening sockets that the service manager made. Closing
// them leaves their files, which are the manager's.
type inherited struct {
	attach, control *net.UnixListener
}

// inherit takes over the sockets that sd_listen_fds(3) describes. left are the files that
// an earlier daemon has left in the descriptor store, by their names.
func inherit() (in inherited, left map[string]*os.File, err error) {
	files, left := stored(activation.Files(true))
	in, err = listeners(files)
	return in, left, err
}

// listeners tells the files apart by their names. A single one may have any
// name if applications can attach to it: its unit gives none. The files are
// closed; the listeners have descriptors of their own.
func listeners(files []*os.File) (in inherited, err error) {
	for _, f := range files {
		l, e := listener(f)
		name := f.Name()
		if l != nil && len(files) == 1 && name != controlName && l.Addr().Network() == ipc.Network {
			name = attachName
		}
		switch {
		case e != nil:
		case name == attachName:
			e = in.take(&in.attach, l, ipc.Network, "a sequential packet socket")
		case name == controlName:
			e = in.take(&in.control, l, "unix", "a stream socket")
		default:
			e = fmt.Errorf("neither %s nor %s", attachName, controlName)
			l.Close()
		}
		if e != nil {
			err = errors.Join(err, fmt.Errorf("inherited socket %q: %w", f.Name(), e))
		}
		f.Close()
	}
	if err != nil {
		in.close()
		return inherited{}, err
	}
	return in, nil
}

func listener(f *os.File) (*net.UnixListener, error) {
	l, err := net.FileListener(f)
	if err != nil {
		return nil, err
	}
	u, ok := l.(*net.UnixListener)
	if !ok {
		l.Close()
		return nil, errors.New("not a Unix socket")
	}
	return u, nil
}

// take puts l into its place or closes it.
func (in *inherited) take(place **net.UnixListener, l *net.UnixListener, network, want string) error {
	switch {
	case l.Addr().Network() != network:
		l.Close()
		return fmt.Errorf("not %s", want)
	case *place != nil:
		l.Close()
		return errors.New("a second one of that name")
	}
	*place = l
	return nil
}

func (in *inherited) close() {
	for _, l := range []*net.UnixListener{in.attach, in.control} {
		if l != nil {
			l.Close()
		}
	}
}

// into puts the sockets where the plan has paths. A plan without the socket
// that was inherited is a contradiction.
func (in *inherited) into(p *plan) error {
	var err error
	if in.attach != nil {
		if p.service.Path == "" {
			err = errors.Join(err, errors.New("socket: none, but the service manager passes one to attach to"))
		}
		p.service.Path, p.service.Listener = "", in.attach
	}
	if in.control != nil {
		if p.control.Path == "" {
			err = errors.Join(err, errors.New("control: none, but the service manager passes one"))
		}
		p.control.Path, p.control.Listener = "", in.control
	}
	return err
}
