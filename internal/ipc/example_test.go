package ipc_test

import (
	"fmt"
	"sync/atomic"

	"github.com/rds-go/rds/internal/ipc"
)

// A submission goes from one end of a ring to the other. Here the ring lies in
// ordinary memory; Segment.Submit and Segment.Submitted give the ends of one
// that two processes share.
func Example() {
	var (
		slots      = make([]ipc.Entry, 8)
		tail, head atomic.Uint64
		producer   = ipc.NewProducer(slots, &tail, &head)
		consumer   = ipc.NewConsumer(slots, &tail, &head)
	)
	if n, err := producer.Free(1); err == nil && n > 0 {
		producer.Put(ipc.MakeEntry(ipc.OpSend, 0, 4000, 1, 2, 64, 0, 0, 99))
		producer.Publish() // and ring, if the other side's Flag is up
	}
	n, err := consumer.Ready()
	if err != nil {
		return // the other side is broken
	}
	for i := range n {
		e := consumer.Peek(i)
		fmt.Printf("%d bytes to port %d, token %d\n", e.Length(), e.Port(), e.Token())
	}
	consumer.Next(n)
	consumer.Publish()
	// Output: 64 bytes to port 4000, token 99
}
