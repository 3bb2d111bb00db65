//go:build !live

package ipc

import (
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"
)

// Who waits for a message of a connection in one process hears of its end, also while a program that is being
// started has the descriptor, too.
func TestEndOfAConnectionWithTwoDescriptors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b, err := new(InProcess).pair()
		if err != nil {
			t.Fatal(err)
		}
		read := make(chan error, 1)
		go func() {
			var r Reply
			read <- b.Receive(&r)
		}()
		synctest.Wait()
		rc, err := a.c.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		other := -1
		if err := rc.Control(func(fd uintptr) { other, err = unix.Dup(int(fd)) }); err != nil || other < 0 {
			t.Fatal(err)
		}
		defer func() { _ = unix.Close(other) }()
		_ = a.Close()
		if err := <-read; err == nil {
			t.Error("a message has come")
		}
		_ = b.Close()
	})
}
