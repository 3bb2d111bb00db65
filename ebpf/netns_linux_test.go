//go:build live

package ebpf

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/internal/netlab"
)

// A thread that was in another network namespace is afterwards where it was: the kernel would
// kill children with Pdeathsig of one that ends.
func TestThreadsComeBackFromOtherNamespaces(t *testing.T) {
	t.Parallel()
	netlab.Root(t)
	home, err := os.Readlink("/proc/thread-self/ns/net")
	must(t, err)
	host, _ := netlab.Pair(t)
	for range 20 {
		var at string
		err := inNetns(host.Netns(), func() (err error) {
			at = fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid())
			away, err := os.Readlink(at)
			if away == home {
				t.Error("the thread is where it was")
			}
			return err
		})
		must(t, err)
		if now, err := os.Readlink(at); err != nil || now != home {
			t.Errorf("the thread is in %s, not in %s: %v", now, home, err)
		}
	}
}
