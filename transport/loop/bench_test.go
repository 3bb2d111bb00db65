package loop

import (
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/transporttest"
)

// sink takes everything and does nothing.
type sink struct{ transporttest.Simple }

func (sink) Message(_ *wire.Header, _ []byte, owned *buf.Buf) {
	if owned != nil {
		owned.Release()
	}
}

// settle waits until the goroutine of Start has left, so that Send delivers.
func settle(l transport.Link) {
	for p := l.(*link).send; ; runtime.Gosched() {
		p.mu.Lock()
		idle := p.started && !p.busy
		p.mu.Unlock()
		if idle {
			return
		}
	}
}

func BenchmarkSend(b *testing.B) {
	for _, size := range []int{64, 1 << 10, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			e := newEnv()
			x, y := e.Dial(b, e.Accepted(b))
			if err := errors.Join(x.Start(sink{}), y.Start(sink{})); err != nil {
				b.Fatal(err)
			}
			settle(x)
			frames := []transport.Frame{(&transporttest.Sender{}).Next(size)}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := x.Send(frames); err != nil {
					b.Fatal(err)
				}
			}
			_ = e.A.Close()
			_ = e.B.Close()
		})
	}
}
