//go:build live

package daemon

import (
	"bytes"
	"os"
	"runtime"
	"testing"

	"github.com/rds-go/rds/internal/client"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// mappings is how many mappings of shared memory this process has.
func mappings(t *testing.T) int {
	t.Helper()
	list, err := os.ReadFile("/proc/self/maps")
	rdstest.Must(t, err)
	return bytes.Count(list, []byte("/memfd:rds"))
}

// The shared memory of clients that have ended is unmapped, but for what the application
// still has: a message that was not released, and memory for operations.
func TestEndedClientsAreUnmapped(t *testing.T) {
	l, ops := newOpLab(t)
	n := ops.node(l, config.Node{})
	far := l.bind(ops.node(l, config.Node{}))
	_, path := serving(t, n, config.Service{})
	const clients = 20
	before := mappings(t)
	messages, exposed := make([]datagram.Message, clients), make([][]byte, clients)
	use := func(i int) error {
		c, err := client.Dial(path)
		if err != nil {
			return err
		}
		defer c.Close()
		s, err := c.Bind(rdstest.AddrOf(rdstest.NewAddr(), 100))
		if err != nil {
			return err
		}
		rdstest.MustSend(t, far, s.LocalAddrPort(), rdstest.Payload(uint64(i), 1000))
		m, err := s.Recv(rdstest.Background(t))
		if err != nil {
			return err
		}
		switch i {
		case 0:
			messages[i] = m
			return nil
		case 1:
			mem, err := s.AllocMemory(8)
			if err != nil {
				return err
			}
			exposed[i] = mem.B
		}
		m.Release()
		return nil
	}
	for i := range clients {
		rdstest.Must(t, use(i))
	}
	rdstest.Eventually(t, "unmapping", func() bool {
		runtime.GC()
		return mappings(t) < before+clients/2
	})
	messages[0].Data[0]++ // no fault
	messages[0].Release()
	exposed[1][0]++
}
