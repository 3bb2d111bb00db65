//go:build !live

package rds

import (
	"context"
	"strings"
	"syscall"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
)

func TestOpen(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", ProviderNode} {
		p, err := Open(name, Config{})
		rdstest.Must(t, err)
		rdstest.NoError(t, p.Close())
	}
	_, err := Open("udp", Config{})
	rdstest.WantErr(t, "unknown provider", err, ErrInvalid, syscall.EINVAL)
	if !strings.Contains(err.Error(), "udp") || !strings.Contains(err.Error(), ProviderKernel) {
		t.Error(err)
	}
	_, err = Open(ProviderNode, Config{Paths: 3})
	rdstest.WantErr(t, "bad config", err)
}

func TestKernelProviderSaysThatThereIsNone(t *testing.T) {
	t.Parallel()
	k, err := OpenKernel()
	if err == nil {
		_ = k.Close()
		t.Skip("needs a kernel without RDS (rmmod rds)")
	}
	rdstest.WantErr(t, "OpenKernel", err, ErrNoKernel, syscall.EAFNOSUPPORT)
	if !strings.HasPrefix(err.Error(), "rds: open: the kernel has no RDS (AF_RDS)") || strings.Contains(err.Error(), "\n") {
		t.Errorf("not clear, or not one line: %q", err)
	}
	_, err = Open(ProviderKernel, Config{})
	rdstest.WantErr(t, "Open", err, ErrNoKernel)
}

func TestListenParsesItsAddress(t *testing.T) {
	t.Parallel()
	for _, a := range []string{"", "127.0.0.1", "localhost", "0.0.0.0:4000", "127.0.0.1:70000"} {
		_, err := Listen(a)
		rdstest.WantErr(t, a, err, ErrInvalid, syscall.EINVAL)
	}
}

// A call that waits behind another one for the process's provider ends in its own time.
func TestListenEndsInItsTime(t *testing.T) {
	shared.token <- struct{}{} // as a call that waits for a daemon does
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := ListenContext(ctx, "127.0.0.1:4000")
	<-shared.token
	rdstest.WantErr(t, "ListenContext", err, context.Canceled)
}
