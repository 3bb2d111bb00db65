//go:build interop

package interop

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// The regions that faults are aimed at, by what they let a peer do.
const (
	regionAll = iota
	regionRead
	regionWrite
	regionOther // readable and writable, in another protection domain
)

var faultRegions = []string{
	regionAll: "rw:65536", regionRead: "r:4096", regionWrite: "w:4096", regionOther: "rwo:4096",
}

// refusal is what a Terminate says: RFC 5040 section 4.8.
type refusal struct{ layer, kind, code int }

var (
	none   = refusal{-1, -1, -1} // the connection is closed without a Terminate
	served = refusal{-2, -2, -2} // it is done
)

func (r refusal) String() string {
	switch r {
	case none:
		return "no Terminate"
	case served:
		return "done"
	}
	return fmt.Sprintf("Terminate %d/%d/%d", r.layer, r.kind, r.code)
}

// sent is what of it is seen on the wire.
func (r refusal) sent() refusal {
	if r == served {
		return none
	}
	return r
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

// faults are the rows of a table, with what RFC 5040 and RFC 5041 section 7
// have a responder answer. Where siw's answer differs it is noted.
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
	{name: "write/read only", op: "write", region: regionRead, length: 64, want: refusal{1, 1, 0}},
	{name: "write/another domain", op: "write", region: regionOther, length: 64, want: refusal{1, 1, 2}},
	{name: "send/too long", op: "send", length: 8193, want: refusal{1, 2, 5}, siw: &refusal{1, 2, 2}},
}

// testFaults has one end do to the other what it must refuse. Each time the
// connection ends, with everything posted flushed on both sides, no region has
// changed, and a new connection does the right thing with the same keys.
func testFaults(t *testing.T, attacker, target verbs) {
	s := target.serve(t, append([]string{"recv:4:8192"}, faultRegions...)...)
	var whole []string
	for i := range s.regions {
		whole = append(whole, s.hash(t, i))
	}
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			f.test(t, attacker, s)
			for i, want := range whole {
				if got := s.hash(t, i); got != want {
					t.Errorf("region %d has changed", i)
				}
			}
			testKeysStayValid(t, attacker, s)
		})
	}
	s.tell(t, "quit")
	s.succeed(t)
}

// test does the operation and checks what both ends say.
func (f fault) test(t *testing.T, attacker verbs, s *regionServer) {
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
	ops := []string{r.on(f.op, offset, f.length)}
	// A Write or Send is complete when it has left, so mostly before the answer:
	// status 0. It is flushed (5) or fails (2) if the answer comes first. siw
	// does not look at what a Terminate says.
	status := "[025]"
	switch {
	case want == served:
		status = "0"
	case f.op == "read":
		status = "[25]"
		fallthrough
	default:
		ops = append(ops, "wait")
	}
	seen := len(attacker.terminates(t))
	out, served := attacker.attack(t, s, ops...)
	for output, want := range map[string]string{
		out:    fmt.Sprintf("completed 1 %s status %s ", f.op, status),
		served: fmt.Sprintf("completed %d recv status 5 ", s.conns),
	} {
		if !regexp.MustCompile(want).MatchString(output) {
			t.Errorf("%q is missing in\n%s", want, output)
		}
	}
	if got := terminate(attacker.terminates(t)[seen:], s.verbs.ours); got != want.sent() {
		t.Errorf("%v, want %v", got, want)
	}
}

// testKeysStayValid does with a new connection what is right.
func testKeysStayValid(t *testing.T, attacker verbs, s *regionServer) {
	t.Helper()
	r := s.regions[regionRead]
	out, _ := attacker.attack(t, s, r.on("read", 0, r.length), "send:0:0:100")
	for _, want := range []string{
		"completed 1 read status 0 ", "sink 1 hash " + hashPattern(regionRead, r.length), "completed 1 send status 0 ",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
}

// terminated finds what siw says of a Terminate it received.
var terminated = regexp.MustCompile(`siw: got TERMINATE\. layer (\d+), type (\d+), code (\d+)`)

// terminates returns the Terminates that a guest has received.
func (p *process) terminates(t *testing.T) (list []refusal) {
	t.Helper()
	console, err := os.ReadFile(p.log)
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range terminated.FindAllSubmatch(console, -1) {
		var r refusal
		if _, err := fmt.Sscan(string(match[1])+" "+string(match[2])+" "+string(match[3]), &r.layer, &r.kind, &r.code); err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	return list
}

// terminate returns the one Terminate there is. siw takes layer and kind from
// each other's place, which shows when the sender is right.
func terminate(list []refusal, right bool) refusal {
	if len(list) == 0 {
		return none
	}
	r := list[0]
	if right {
		r.layer, r.kind = r.kind, r.layer
	}
	return r
}
