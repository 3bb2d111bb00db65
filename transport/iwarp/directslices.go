package iwarp

// remains are slices of which leading bytes are taken off.
type remains struct {
	bufs [][]byte
	off  int
}

func slicesFrom(bufs [][]byte, pos int) remains {
	for len(bufs) > 0 && pos >= len(bufs[0]) {
		pos -= len(bufs[0])
		bufs = bufs[1:]
	}
	return remains{bufs, pos}
}

// take puts the next n bytes into the FPDU that b has begun.
func (r *remains) take(n int, b *batch) {
	for n > 0 {
		p := r.bufs[0][r.off:]
		if len(p) > n {
			p = p[:n]
		}
		if len(p) <= copyLeast || b.crc {
			// With a CRC also since a program may share the memory with others: what
			// they change between the CRC and the write would cost the connection.
			b.stage.B = append(b.stage.B, p...)
		} else {
			b.lendOwn(p)
		}
		n -= len(p)
		if r.off += len(p); r.off == len(r.bufs[0]) {
			r.bufs, r.off = r.bufs[1:], 0
		}
	}
}

// copyLeast is how short a piece must be for its copy to cost less than an element
// more of the system call's vector.
const copyLeast = 256
