//go:build !live

package objects

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// A descriptor opens a domain if its file could be read when it was opened, and lets targets be
// modified if the file could be written to as well. One of O_PATH, for which nobody has looked at
// the permissions, is good for nothing.
func TestAccessIsThatOfTheDescriptor(t *testing.T) {
	g := parallelRig(t, Config{})
	f := g.file("job")
	owner := g.process("owner", f)
	target := owner.target()
	for _, c := range []struct {
		name         string
		flags        int
		open, modify error
	}{
		{"reading and writing", os.O_RDWR, nil, nil},
		{"reading", os.O_RDONLY, nil, ErrAccess},
		{"writing", os.O_WRONLY, ErrAccess, nil},
		{"path", unix.O_PATH, ErrAccess, nil},
		{"path, reading and writing", unix.O_PATH | os.O_RDWR, ErrAccess, nil},
	} {
		fd, err := unix.Open(f.Name(), c.flags|unix.O_CLOEXEC, 0)
		g.ok(err)
		s := g.session(c.name)
		dom, err := s.OpenDomain(fd, os.O_CREATE)
		g.ok(unix.Close(fd))
		if err != c.open {
			t.Errorf("%s: opened with %v, want %v", c.name, err, c.open)
		}
		if err != nil {
			continue
		}
		_, err = s.Register(dom, target.Number)
		g.ok(err)
		h, err := s.OpenTarget(dom, target.Number)
		g.ok(err)
		shared := g.session(c.name + ", shared")
		copied, err := shared.ShareDomain(dom)
		g.ok(err)
		_, err = shared.Register(copied, target.Number)
		g.ok(err)
		_, connect := s.EnsureConnected(dom, target.Number, upAttr(peer(1)))
		for what, err := range map[string]error{
			"modify":           s.ModifyTarget(dom, target.Number, Attr{State: StateReset}, MaskState),
			"modify, by share": shared.ModifyTarget(copied, target.Number, Attr{State: StateReset}, MaskState),
			"handle":           h.Modify(Attr{State: StateReset}, MaskState),
			"connect":          connect,
		} {
			if err != c.modify {
				t.Errorf("%s: %s: %v, want %v", c.name, what, err, c.modify)
			}
		}
	}
}

// A target is modified by those who are of the user that made it, whoever else has the file.
func TestTargetsAreTheirUsers(t *testing.T) {
	g := parallelRig(t, Config{})
	f := g.file("job")
	of := func(u User) (*Session, *Domain) {
		s, err := g.NewSession(SessionConfig{User: u})
		g.ok(err)
		dom, err := s.OpenDomain(int(f.Fd()), os.O_CREATE)
		g.ok(err)
		return s, dom
	}
	s, dom := of(User{UID: 7, Place: 1})
	target, err := s.CreateTarget(TargetAttr{Domain: dom})
	g.ok(err)
	for u, want := range map[User]error{{UID: 7, Place: 1}: nil, {UID: 8, Place: 1}: ErrAccess, {UID: 7, Place: 2}: ErrAccess, {}: ErrAccess} {
		s, dom := of(u)
		_, err := s.Register(dom, target.Number)
		g.ok(err)
		g.want(s.ModifyTarget(dom, target.Number, Attr{State: StateReset}, MaskState), want)
		if _, err := s.QueryTarget(dom, target.Number); err != nil {
			t.Errorf("%+v may not look: %v", u, err)
		}
	}
}
