package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"

	bequest "github.com/rds-go/rds/internal/daemon"
	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/statefile"
	"github.com/rds-go/rds/rds"
)

// The descriptor store of the service manager (FileDescriptorStoreMax=, sd_notify(3)): a
// daemon that is stopped leaves there what it would pass to a successor, and the one that
// is started next takes it from there. Who connects meanwhile waits in the kernel, and
// applications wait, as in a takeover. When the service is stopped for good the manager
// closes what is in the store, and so ends all sessions.

// Names in the store.
const (
	storeHead = "rdsd-head" // storedHead
	storeFile = "rdsd-"     // a stored file's name is this and its number
)

// storedHead describes what is in the store.
type storedHead struct {
	Version, Legacy int
	Place           place
	State           int // bytes of the state of the rds.Legacy, behind this JSON text
	Files           int // files of the rds.Legacy; those of Parts follow
	StateFile       int // number of the passed file that is the daemon's state file; -1: none
	Parts           []passedPart
}

// storeRoom is how many descriptors the service manager keeps, 0 if it keeps none or does
// not say (before systemd 254).
func storeRoom() int {
	n, err := strconv.Atoi(os.Getenv("FDSTORE"))
	if err != nil || os.Getenv("NOTIFY_SOCKET") == "" {
		return 0
	}
	return n
}

// leave puts all that a successor needs into the store, and tells whether it has. If not,
// the daemon serves as before.
func (d *daemon) leave() bool {
	room, n := storeRoom(), heritage(nil)
	if n, _ = d.node.(heritage); room == 0 || n == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), d.set.Drain.Duration)
	defer cancel()
	l, err := n.Bequeath(bequest.ForStore(ctx))
	if err == nil {
		if err = d.store(l, room); err != nil {
			d.unstore(len(l.Files) + len(d.parts))
		}
		l.Close()
		if err != nil {
			n.Return()
		}
	}
	if err != nil {
		d.log.Warn("nothing is left in the descriptor store: applications will attach again", zap.Error(err))
		return false
	}
	for _, p := range d.parts {
		p.Leave()
	}
	d.log.Info("stopped, all is left in the descriptor store")
	return true
}

// store puts a Legacy and the daemon's parts into the store.
func (d *daemon) store(l *rds.Legacy, room int) (err error) {
	head := storedHead{Version: takeoverVersion, Legacy: rds.LegacyVersion, Place: d.at, State: len(l.State), Files: len(l.Files), StateFile: l.StateFile}
	files := slices.Clone(l.Files)
	for _, p := range d.parts {
		f, err := p.File()
		if err != nil {
			return err
		}
		defer f.Close()
		files = append(files, f)
		head.Parts = append(head.Parts, passedPart{p.name, p.Owns()})
	}
	if len(files) >= room {
		return fmt.Errorf("%d descriptors, the service manager keeps %d", len(files)+1, room)
	}
	b, err := json.Marshal(&head)
	if err != nil {
		return err
	}
	f, err := ipc.NewFile(storeHead, append(append(b, 0), l.State...))
	if err != nil {
		return err
	}
	defer f.Close()
	for i, x := range files {
		if err := storeNotify("FDSTORE=1\nFDPOLL=0\nFDNAME="+storeFile+strconv.Itoa(i), x); err != nil {
			return err
		}
	}
	return storeNotify("FDSTORE=1\nFDPOLL=0\nFDNAME="+storeHead, f) // last: without it the others are nothing
}

// unstore empties the store of n files.
func (d *daemon) unstore(n int) {
	err := storeNotify("FDSTOREREMOVE=1\nFDNAME=" + storeHead)
	for i := range n {
		err = errors.Join(err, storeNotify("FDSTOREREMOVE=1\nFDNAME="+storeFile+strconv.Itoa(i)))
	}
	if err != nil {
		d.log.Warn("service manager not told", zap.Error(err))
	}
}

// storeNotify is notify with descriptors.
func storeNotify(state string, files ...*os.File) error {
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: os.Getenv("NOTIFY_SOCKET"), Net: "unixgram"})
	if err != nil {
		return err
	}
	defer c.Close()
	var fds []int
	for _, f := range files {
		rc, err := f.SyscallConn()
		if err != nil {
			return err
		}
		if err := rc.Control(func(fd uintptr) { fds = append(fds, int(fd)) }); err != nil {
			return err
		}
	}
	_ = c.SetWriteDeadline(time.Now().Add(takeoverStep))
	rc, err := c.SyscallConn() // package net sends no descriptors on a datagram socket that is connected
	if err != nil {
		return err
	}
	var sent error
	err = rc.Write(func(fd uintptr) bool {
		sent = syscall.Sendmsg(int(fd), []byte(state), syscall.UnixRights(fds...), nil, 0)
		return sent != syscall.EAGAIN
	})
	return errors.Join(err, os.NewSyscallError("sendmsg", sent))
}

// stored takes out of the files of the service manager what a daemon has left in the
// store.
func stored(files []*os.File) (rest []*os.File, left map[string]*os.File) {
	left = make(map[string]*os.File)
	for _, f := range files {
		if strings.HasPrefix(f.Name(), storeFile) {
			left[f.Name()] = f
		} else {
			rest = append(rest, f)
		}
	}
	return rest, left
}

// fromStore is the predecessor that has left files in the store, nil if it has not, or
// this daemon has other settings.
func (d *daemon) fromStore(left map[string]*os.File) *predecessor {
	if len(left) == 0 {
		return nil
	}
	p, err := d.readStore(left)
	d.unstore(len(left) - 1)
	if err == nil {
		return p
	}
	d.log.Warn("what is in the descriptor store is of no use: applications attach again", zap.Error(err))
	for _, f := range left {
		// The manager has a descriptor too, for a moment yet: ports have to be free, and
		// applications to hear.
		if rc, err := f.SyscallConn(); err == nil {
			_ = rc.Control(func(fd uintptr) { _ = syscall.Shutdown(int(fd), syscall.SHUT_RDWR) }) // fails for files
		}
		_ = f.Close()
	}
	return nil
}

func (d *daemon) readStore(left map[string]*os.File) (*predecessor, error) {
	head := left[storeHead]
	if head == nil {
		return nil, errors.New("no " + storeHead)
	}
	b, err := ipc.ReadFile(head)
	if err != nil {
		return nil, err
	}
	text, state, _ := strings.Cut(string(b), "\x00")
	var h storedHead
	if err := json.Unmarshal([]byte(text), &h); err != nil {
		return nil, err
	}
	file := func(i int) *os.File { return left[storeFile+strconv.Itoa(i)] }
	fail := func(err error) (*predecessor, error) {
		if f := file(h.StateFile); f != nil { // a new daemon locks it
			if s, e := statefile.Adopt(f, func(error) {}); e == nil {
				s.Close()
			}
		}
		return nil, err
	}
	switch {
	case h.Version != takeoverVersion || h.Legacy != rds.LegacyVersion:
		return fail(fmt.Errorf("versions %d and %d, want %d and %d", h.Version, h.Legacy, takeoverVersion, rds.LegacyVersion))
	case len(h.Place.differs(&d.at)) > 0:
		return fail(fmt.Errorf("other settings: %s", strings.Join(h.Place.differs(&d.at), ", ")))
	case len(state) != h.State || h.Files < 0 || len(left) != 1+h.Files+len(h.Parts):
		return fail(fmt.Errorf("%d files", len(left)))
	}
	p := &predecessor{legacy: &rds.Legacy{State: []byte(state)}, parts: make(map[string]*os.File), owns: make(map[string]bool)}
	for i := range h.Files + len(h.Parts) {
		f := file(i)
		if f == nil {
			return fail(fmt.Errorf("file %d is missing", i))
		}
		if i < h.Files {
			p.legacy.Files = append(p.legacy.Files, f)
		} else {
			x := h.Parts[i-h.Files]
			p.parts[x.Name], p.owns[x.Name] = f, x.Owns
		}
	}
	_ = head.Close()
	return p, nil
}
