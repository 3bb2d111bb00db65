//go:build live

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
)

// An application opens domains of files, each of which keeps a descriptor of the daemon, until it is refused with
// EDQUOT. The daemon has descriptors left: others attach, bind, and open domains that exist. With the
// application's end its share is free.
func TestDomainsLeaveDescriptors(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	dir := rdstest.Dir(t)
	path := filepath.Join(dir, "a.sock")
	d := clitest.StartEnv(t, []string{"RDS_SOCKET=none", "RDS_CONTROL=none"}, "/bin/sh", "-c", `ulimit -n 400; exec "$0" "$@"`,
		bin.Path("rdsd"), "--config", write(t, "[users]\nexempt = []\n"), "--listen", "127.22.69.1", "--port", "17269", "--socket", path, "--control", "none")
	d.Line(d.Stderr, "ready")
	fill := func() (n int, c *rds.Client) {
		c, err := rds.Dial(path)
		must(t, err)
		s, err := c.XRC(context.Background())
		must(t, err)
		for ; n < 400; n++ {
			f, err := os.Create(filepath.Join(dir, string(rune('A'+n))))
			must(t, err)
			_, err = s.OpenDomain(f, os.O_CREATE)
			must(t, f.Close())
			if err != nil {
				if !errors.Is(err, syscall.EDQUOT) {
					t.Errorf("domain %d: %v", n, err)
				}
				break
			}
		}
		return n, c
	}
	n, c := fill()
	if n < 10 || n > 400/8 {
		t.Errorf("%d domains of one user, of 400 descriptors", n)
	}
	if more, other := fill(); more != n { // the same files
		t.Errorf("another application of the user opens %d of %d domains", more, n)
	} else {
		must(t, other.Close())
	}
	other := clientOf(t, path)
	bind(t, other, "127.22.69.1:4000")
	s, err := other.XRC(context.Background())
	must(t, err)
	must(t, c.Close())
	rdstest.Eventually(t, "the share to be free", func() bool {
		f, err := os.Create(filepath.Join(dir, "again"))
		must(t, err)
		defer f.Close()
		_, err = s.OpenDomain(f, os.O_CREATE)
		return err == nil
	})
}
