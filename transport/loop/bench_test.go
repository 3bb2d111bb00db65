package loop

import (
	"errors"
	"fmt"
	"testing"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport/transporttest"
)

// sink takes everything and does nothing.
type sink struct{}

func (sink) Begin() {}
func (sink) Message(_ *wire.Header, _ []byte, owned *buf.Buf) {
	if owned != nil {
		owned.Release()
	}
}
func (sink) End()                 {}
func (sink) Writable()            {}
func (sink) Closed(error, uint64) {}

func BenchmarkWritev(b *testing.B) {
	for _, size := range []int{64, 1 << 10, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			e := newEnv()
			x, y := e.Dial(b, e.Accepted(b))
			if err := errors.Join(x.Start(sink{}), y.Start(sink{})); err != nil {
				b.Fatal(err)
			}
			msg := (&transporttest.Sender{}).Next(size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := x.Writev(msg); err != nil {
					b.Fatal(err)
				}
			}
			_ = e.A.Close()
			_ = e.B.Close()
		})
	}
}
