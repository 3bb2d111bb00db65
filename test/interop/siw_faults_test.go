//go:build interop

package interop

import (
	"fmt"
	"slices"
	"testing"
)

// The regions that faults are aimed at, by what they let a peer do.
const (
	regionAll = iota
	regionRead
	regionWrite
	regionOther // readable and writable, in another protection domain
)

var faultRegions = []regionSpec{
	regionAll: {"rw", 65536}, regionRead: {"r", 4096}, regionWrite: {"w", 4096}, regionOther: {"rwo", 4096},
}

// refusal is what a Terminate says: RFC 5040 section 4.8.
type refusal struct{ layer, kind, code int }

var (
	none   = refusal{-1, -1, -1} // the connection is closed without a Terminate
	served = refusal{-2, -2, -2} // it is not refused
)

func (r refusal) String() string {
	switch r {
	case none:
		return "no Terminate"
	case served:
		return "done"
	}
	return fmt.Sprintf("Terminate %d/%d/%02d", r.layer, r.kind, r.code)
}

// fault is an operation that its target refuses.
type fault struct {
	name   string
	op     string
	region int
	key    uint32 // flipped in the right one
	offset func(r verbsRegion) int64
	length int

	want refusal  // what the RFCs have the target answer
	siw  *refusal // what Linux answers, if that is something else
}

func at(offset int64) func(verbsRegion) int64 { return func(verbsRegion) int64 { return offset } }

// highest is a place from which some length leads beyond 2^64.
func highest(r verbsRegion) int64 { return -int64(r.address) - 256 }

// faults are the rows of a table, with what RFC 5040 section 7 and RFC 5041
// section 7 have a responder answer. Where siw's answer differs it is noted.
var faults = []fault{
	{name: "read/unknown index", op: "read", key: 0x00ff_ff00, length: 64, want: refusal{0, 1, 0}},
	{name: "read/stale key", op: "read", key: 1, length: 64, want: refusal{0, 1, 0}},
	{name: "read/before the start", op: "read", offset: at(-1), length: 64, want: refusal{0, 1, 1}},
	{name: "read/past the end", op: "read", offset: at(1), length: 65536, want: refusal{0, 1, 1}},
	{name: "read/beyond all addresses", op: "read", offset: highest, length: 512, want: refusal{0, 1, 4}, siw: &none},
	{name: "read/another domain", op: "read", region: regionOther, length: 64, want: refusal{0, 1, 3}},
	// siw checks a source's key, bounds and domain, not its rights: siw_qp_tx.c
	// calls siw_check_sgl_tx with no permissions wanted.
	{name: "read/write only", op: "read", region: regionWrite, length: 64, want: refusal{0, 1, 2}, siw: &served},
	{name: "write/unknown index", op: "write", key: 0x00ff_ff00, length: 64, want: refusal{1, 1, 0}},
	{name: "write/stale key", op: "write", key: 1, length: 64, want: refusal{1, 1, 0}},
	{name: "write/before the start", op: "write", offset: at(-1), length: 64, want: refusal{1, 1, 1}},
	{name: "write/past the end", op: "write", offset: at(65536 - 63), length: 64, want: refusal{1, 1, 1}},
	{name: "write/beyond all addresses", op: "write", offset: highest, length: 512, want: refusal{1, 1, 3}, siw: &refusal{1, 0, 0}},
	// RFC 5041 has no code for a missing right.
	{name: "write/read only", op: "write", region: regionRead, length: 64, want: refusal{1, 1, 0}},
	{name: "write/another domain", op: "write", region: regionOther, length: 64, want: refusal{1, 1, 2}},
	{name: "send/too long", op: "send", length: receiveLength + 1, want: refusal{1, 2, 5}, siw: &refusal{1, 2, 2}},
	// A region of all connections is not for one peer to invalidate (RFC 5042
	// section 6.4.5). siw lets none invalidate what programs have registered, and
	// tells only the receiver.
	{name: "send/invalidates what is shared", op: "inv", length: 64, want: refusal{0, 2, 9}, siw: &served},
}

// testFaults has one end do to the other what it must refuse. Each time the
// connection ends, with everything posted flushed on both sides, no region has
// changed, and a new connection does the right thing with the same keys.
func testFaults(t *testing.T, attacker, target verbs) {
	s := target.serve(t, 4, faultRegions...)
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			f.test(t, attacker, s)
			for i, r := range s.regions {
				if s.hash(t, i) != hashPattern(i, r.length) {
					t.Errorf("region %d has changed", i)
				}
			}
			testKeysStayValid(t, attacker, s)
		})
	}
	t.Run("read/taken back", func(t *testing.T) {
		s.dereg(t, regionAll)
		fault{op: "read", length: 64, want: refusal{0, 1, 0}}.test(t, attacker, s)
		testKeysStayValid(t, attacker, s)
	})
	s.quit(t)
	t.Run("send/nothing posted", func(t *testing.T) {
		s := target.serve(t, 0, faultRegions...)
		fault{op: "send", length: 64, want: refusal{1, 2, 2}}.test(t, attacker, s)
		s.quit(t)
	})
}

// test does the operation and checks what both ends say.
func (f fault) test(t *testing.T, attacker verbs, s *regionServer) {
	t.Helper()
	want := f.want
	if f.siw != nil && !s.verbs.ours {
		want = *f.siw
	}
	r := s.regions[f.region]
	r.key ^= f.key
	offset := int64(0)
	if f.offset != nil {
		offset = f.offset(r)
	}
	ops := []operation{r.on(f.op, offset, f.length)}
	sent := none
	if want != served {
		ops, sent = append(ops, wait), want
	}
	got := attacker.startAttack(t, s, ops...).finish(t, s.verbs.ours)
	if status := got.of(f.op).status; !slices.Contains(f.statuses(attacker.ours, want), status) {
		t.Errorf("status %d, want one of %v", status, f.statuses(attacker.ours, want))
	}
	if got.refusal != sent {
		t.Errorf("the attacker was told %v, want %v", got.refusal, sent)
	}
	if told := s.awaitEnd(t); s.verbs.ours && told != sent {
		t.Errorf("we have sent %v, want %v", told, sent)
	}
}

// Statuses of ibv_wc_status.
const (
	statusSuccess      = 0
	statusLocalError   = 2 // IBV_WC_LOC_QP_OP_ERR
	statusFlushed      = 5
	statusRemoteAccess = 10
)

// statuses are how the operation may complete.
func (f fault) statuses(ours bool, want refusal) []int {
	switch {
	case want == served:
		return []int{statusSuccess}
	case f.op != "read":
		// It has left, which is all that completion means, or else the answer
		// was quicker, and it is flushed or siw cannot send it.
		return []int{statusSuccess, statusLocalError, statusFlushed}
	case !ours: // siw does not look at what a Terminate says
		return []int{statusLocalError, statusFlushed}
	case want == none:
		return []int{statusFlushed}
	}
	return []int{statusRemoteAccess}
}

// testKeysStayValid does with a new connection what is right.
func testKeysStayValid(t *testing.T, attacker verbs, s *regionServer) {
	t.Helper()
	r := s.regions[regionRead]
	got := attacker.startAttack(t, s, r.on("read", 0, r.length), operation{op: "send", length: 100}).finish(t, s.verbs.ours)
	if c := got.of("read"); c.status != 0 || c.hash != hashPattern(regionRead, r.length) {
		t.Errorf("a later read: %+v", c)
	}
	if c := got.of("send"); c.status != 0 {
		t.Errorf("a later message: %+v", c)
	}
	if got.refusal != none {
		t.Errorf("a later connection: %v", got.refusal)
	}
	s.awaitEnd(t)
}
