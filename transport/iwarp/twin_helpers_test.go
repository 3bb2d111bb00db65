package iwarp

import (
	"math/rand/v2"
)

// writeSplit writes b in pieces of random lengths.
func (p *raw) writeSplit(r *rand.Rand, b []byte) {
	for i := 0; len(b) > 0; i++ {
		n := len(b)
		switch {
		case i > 400: // enough
		case r.IntN(3) == 0:
			n = r.IntN(min(n, 24)) + 1
		default:
			n = r.IntN(min(n, 8000)) + 1
		}
		p.write(b[:n])
		b = b[n:]
	}
}
