//go:build !live

package objects

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestConfigNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	now := new(clock).now
	if err := (Config{Now: now, Base: base}).Validate(); err != nil {
		t.Error(err)
	}
	for field, c := range map[string]Config{
		"Now":           {Base: base},
		"Base":          {Now: now},
		"Sessions":      {Now: now, Base: base, Sessions: -1},
		"Grace":         {Now: now, Base: base, Grace: 2 * time.Hour},
		"Reap":          {Now: now, Base: base, Reap: 1},
		"Rest":          {Now: now, Base: base, Rest: -1},
		"RestCount":     {Now: now, Base: base, RestCount: 1<<20 + 1},
		"Restarts":      {Now: now, Base: base, Restarts: -1},
		"RestartWait":   {Now: now, Base: base, RestartWait: 1},
		"MTU":           {Now: now, Base: base, MTU: 255},
		"RdAtomic":      {Now: now, Base: base, RdAtomic: 256},
		"MaxWR":         {Now: now, Base: base, MaxWR: -1},
		"Limits.SRQs":   {Now: now, Base: base, Limits: Limits{SRQs: -1}},
		"Limits.Events": {Now: now, Base: base, Limits: Limits{Events: 1}},
	} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), field) || strings.Count(err.Error(), "\n") != 0 {
			t.Errorf("%s: %v", field, err)
		}
		if _, err := New(c); err == nil {
			t.Errorf("%s: a device was made", field)
		}
	}
	if c := (Config{Grace: 40 * time.Second}).withDefaults(); c.Rest != 80*time.Second {
		t.Errorf("numbers rest for %v", c.Rest)
	}
}

func TestErrorsReachTheErrno(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]error{
		ErrAttribute: syscall.EINVAL, ErrState: syscall.EINVAL, ErrNumber: syscall.EINVAL, ErrNotRegistered: syscall.EINVAL,
		ErrForeign: syscall.EINVAL, ErrExists: syscall.EINVAL, ErrNoDomain: syscall.EAGAIN, ErrFile: syscall.EBADF,
		ErrMask: syscall.EOPNOTSUPP, ErrBusy: syscall.EBUSY, ErrLimit: syscall.ENOMEM,
		ErrSessions: syscall.EMFILE, ErrServiceInUse: syscall.EADDRINUSE, ErrClosed: net.ErrClosed,
		ErrGrace: syscall.ETIMEDOUT, &waitError{ErrUnacked, ErrClosed}: syscall.EBUSY,
	} {
		if !errors.Is(err, want) || err.Error() == "" {
			t.Errorf("%v is no %v", err, want)
		}
	}
}
