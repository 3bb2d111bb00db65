package bench

import (
	"context"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/rds-go/rds/transport/iwarp"
)

// trafficDepth is what each connection of a traffic work has outstanding.
const trafficDepth = 4

// traffic is barriers on a device whose connections write and read as fast as
// they can, half of them each; both ends of each are in this process.
func (b *regionsRun) traffic() (Result, error) {
	dev, err := iwarp.Open(iwarp.Config{Regions: b.dev})
	if err != nil {
		return Result{}, err
	}
	defer dev.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var moved atomic.Uint64
	l, err := dev.Listen(netip.AddrPortFrom(clientIP, 0))
	if err != nil {
		return Result{}, err
	}
	var ends []*verbs
	for i := range b.w.Workers {
		op := OpWrite
		if i%2 == 1 {
			op = OpRead
		}
		w := &Work{Kind: RDMA, Op: op, Size: b.w.Size, Depth: trafficDepth, Batch: 1}
		v, err := trafficPair(ctx, dev, l, w)
		if err != nil {
			return Result{}, err
		}
		ends = append(ends, v)
	}
	for _, v := range ends {
		b.wg.Go(func() {
			if err := v.move(&b.stop, &moved); err != nil {
				b.fail(err)
			}
		})
	}
	before, start := moved.Load(), time.Now()
	var bytes float64
	var took time.Duration
	res := b.barriers(func() {
		bytes, took = float64(moved.Load()-before)*float64(b.w.Size), time.Since(start)
		b.stop.Store(true)
		b.wg.Wait()
	})
	res.Flood = bytes / took.Seconds() / 1e6
	return res, nil
}

// trafficPair makes a connection and returns the end that works.
func trafficPair(ctx context.Context, dev *iwarp.Device, l *iwarp.Listener, w *Work) (*verbs, error) {
	server := &verbs{w: w, dev: dev, ctx: ctx, mem: make([]byte, w.Depth*w.Size)}
	client := &verbs{w: w, dev: dev, ctx: ctx, mem: make([]byte, w.Depth*w.Size)}
	for _, v := range []*verbs{server, client} {
		if err := v.create(); err != nil {
			return nil, err
		}
	}
	accepted := make(chan error, 1)
	go func() { accepted <- server.accept(l) }()
	if err := client.connect(ctx, clientIP, l.Addr()); err != nil {
		return nil, err
	}
	return client, <-accepted
}

// move writes or reads until stop.
func (v *verbs) move(stop *atomic.Bool, moved *atomic.Uint64) error {
	op := iwarp.OpWrite
	if v.w.Op == OpRead {
		op = iwarp.OpRead
	}
	win := newWindows(v, 1, func(i int) iwarp.WorkRequest { return v.remoteRequest(op, i*v.w.Size, i*v.w.Size, v.w.Size) })
	for !stop.Load() {
		list := win.room(0, 1)
		if list == nil {
			if err := win.reap(); err != nil {
				return err
			}
			continue
		}
		if err := win.post(0, list); err != nil {
			return err
		}
		moved.Add(1)
	}
	return win.drain()
}
