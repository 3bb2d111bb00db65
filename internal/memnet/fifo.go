package memnet

// fifo keeps bytes in order.
type fifo struct {
	chunks [][]byte // none is empty
	size   int      // bytes in chunks
}

func (f *fifo) len() int { return f.size }

// add appends bytes, which belong to the fifo then.
func (f *fifo) add(b []byte) {
	if len(b) > 0 {
		f.chunks = append(f.chunks, b)
		f.size += len(b)
	}
}

// cut takes the first bytes out, at most n, without copying them.
func (f *fifo) cut(n int) []byte {
	b := f.chunks[0]
	if n < len(b) {
		f.chunks[0] = b[n:]
		b = b[:n:n]
	} else {
		f.chunks[0] = nil
		f.chunks = f.chunks[1:]
	}
	f.size -= len(b)
	return b
}

// get takes bytes out and copies them to b.
func (f *fifo) get(b []byte) (n int) {
	for n < len(b) && f.size > 0 {
		n += move(b[n:], f.cut(len(b)-n))
	}
	return n
}

// move copies bytes as the kernel does: unseen by the race detector, for which the copying of
// long messages would be most of its work.
//
//go:norace
func move(dst, src []byte) int { return copy(dst, src) }
