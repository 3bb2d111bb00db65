package xrc

import "sync/atomic"

// Traffic counts what came by a target, over all its generations.
type Traffic struct {
	Messages, Bytes uint64 // messages and bytes as the transport reports them
	UnknownSRQ      uint64 // requests for a queue that its domain does not have
}

type traffic struct{ messages, bytes, unknown atomic.Uint64 }

func (c *traffic) snapshot() Traffic {
	return Traffic{c.messages.Load(), c.bytes.Load(), c.unknown.Load()}
}

// Count is how the transport reports what it has received, some messages at a
// time.
func (t *Target) Count(messages, bytes uint64) {
	t.traffic.messages.Add(messages)
	t.traffic.bytes.Add(bytes)
}
