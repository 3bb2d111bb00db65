package xctl

import "testing"

// What a message says of the Writes that it builds on means the same Writes to the receiver, also where
// their ordinals pass the one that there is not.
func TestQPDataNamesWrites(t *testing.T) {
	t.Parallel()
	const qp = 0xabcdef
	for _, last := range []uint32{300, 1<<32 - 1, 1, 5, MostBuilds} {
		s, r := WriteSender{last: last}, WriteReceiver{last: last}
		if data := s.QPData(qp, 0); data != qp {
			t.Errorf("no Writes: %#x", data)
		}
		if got, dep, ok := r.QPData(qp); got != qp || dep != 0 || !ok {
			t.Errorf("no Writes: %#x, %d, %v", got, dep, ok)
		}
		for n, dep := 1, last; n <= 300; n++ {
			got, first, ok := r.QPData(s.QPData(qp, dep))
			if got != qp || ok != (n <= MostBuilds) || ok && first != dep {
				t.Fatalf("%d Writes up to %d: %#x, from %d, %v; want from %d", n, last, got, first, ok, dep)
			}
			if dep--; dep == 0 {
				dep--
			}
		}
	}
}
