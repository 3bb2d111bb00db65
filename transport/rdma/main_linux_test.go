package rdma

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/rds-go/rds/transport/transporttest"
)

// gnet starts a worker pool when the program starts; only what comes later is ours.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) }

var addresses atomic.Uint32

// newAddr returns an address of 127.0.0.0/8 that no other test of this process
// has and none of another process is likely to have.
func newAddr() netip.Addr {
	var a [4]byte
	binary.BigEndian.PutUint32(a[:], 127<<24|(base+addresses.Add(1))%0xfffffe+1)
	return netip.AddrFrom4(a)
}

var base = rand.Uint32N(1 << 24)

// testPort is below the ephemeral range and not the real one.
var testPort = uint16(20000 + rand.IntN(10000))

func newTransport(t testing.TB, o Options) *Transport {
	t.Helper()
	if o.Port == 0 {
		o.Port = testPort
	}
	tr, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tr.Close() })
	return tr
}

func newEnv(t testing.TB, a, b Options) transporttest.Env {
	t.Helper()
	return transporttest.Env{A: newTransport(t, a), B: newTransport(t, b), AddrA: newAddr(), AddrB: newAddr(), Nobody: newAddr()}
}

func TestContract(t *testing.T) {
	for _, crc := range []bool{false, true} {
		t.Run(map[bool]string{false: "NoCRC", true: "CRC"}[crc], func(t *testing.T) {
			transporttest.Run(t, func(t *testing.T) transporttest.Env { return newEnv(t, Options{CRC: crc}, Options{CRC: crc}) })
		})
	}
}
