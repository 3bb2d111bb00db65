package conn

import (
	"testing"

	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
)

// octets is what a link has not taken of a batch.
func octets(b *Batch) []byte {
	var all []byte
	for i := range b.Frames {
		all = append(append(all, b.Frames[i].Head...), b.Frames[i].Body...)
	}
	return all[len(all)-b.Bytes:]
}

// headers are those of the messages in a stream.
func headers(t testing.TB, stream []byte) (all []wire.Header) {
	t.Helper()
	for len(stream) > 0 {
		var h wire.Header
		if err := h.Decode(stream); err != nil {
			t.Fatal(err)
		}
		stream = stream[wire.HeaderSize+int(h.Length):]
		all = append(all, h)
	}
	return all
}

// all is a whole batch.
func all(b *Batch) transport.Taken { return transport.Taken{Frames: len(b.Frames)} }

// take is what a link takes that has room for n octets and ops operations.
func take(b *Batch, n, ops int) (t transport.Taken) {
	skip := -b.Bytes
	for i := range b.Frames {
		skip += b.Frames[i].Size()
	}
	begins := b.Ops
	for ; t.Frames < len(b.Frames); t.Frames++ {
		t.Ops = false
		if len(begins) > 0 && begins[0].Frame == t.Frames {
			if ops == 0 {
				return t
			}
			t.Ops, begins = true, begins[1:]
			ops--
		}
		left := b.Frames[t.Frames].Size() - skip
		if n < left {
			t.Octets = n
			return t
		}
		n -= left
		skip = 0
	}
	t.Ops = false
	return t
}

// begun are the operations of a batch that a link has begun.
func begun(b *Batch, t transport.Taken) []BatchOp {
	n := 0
	for n < len(b.Ops) && (b.Ops[n].Frame < t.Frames || b.Ops[n].Frame == t.Frames && t.Ops) {
		n++
	}
	return b.Ops[:n]
}

// Whatever a link takes of a batch, Batch.Taken counts its octets.
func TestBatchCountsWhatIsTaken(t *testing.T) {
	t.Parallel()
	o := newOpBench(t)
	o.paths[0].opsMost = 8
	for range 3 {
		o.send(nil)
	}
	o.send(&Operation{})
	o.send(&Operation{Silent: true})
	o.send(nil)
	o.Fill(0, &o.b)
	o.Wrote(0, take(&o.b, 7, 0)) // so that some of the first frame was taken before
	o.paths[0].opsMost = 8
	o.Fill(0, &o.b)
	if o.b.Bytes != 5*opSize-7 || len(o.b.Frames) != 6 {
		t.Fatalf("%d bytes in %d frames", o.b.Bytes, len(o.b.Frames))
	}
	for n := range o.b.Bytes + 1 {
		if got := o.b.Taken(take(&o.b, n, 2)); got != n {
			t.Fatalf("%d octets, not %d", got, n)
		}
	}
}
