package mr

import (
	"fmt"
	"testing"
)

// proto is a model of one base, two readers and an invalidator, at the
// granularity of the atomic operations in Reader and grace. Memories are
// numbered; a memory that was released must not be in a reader's hands.
type proto struct {
	live     int8    // memory the slot points to, 0: none
	dropped  [4]bool // memory waits for an invalidation
	gone     [4]bool // memory was released
	fresh    int8    // memory that is mapped next
	inv      int8    // the invalidator: 0 idle, 1 took the dropped, 2 took the snapshot
	batch    [4]bool // memories of the batch
	awaited  [2]bool // readers that were inside when the snapshot was taken
	reader   [2]struct{ pc, holds int8 }
	sections [2]int8 // sections that the reader may still open
}

const lastMemory = 3

// steps are all states that may follow s. With early the invalidator looks at
// the readers before it takes what is dropped: the mistake the model must find.
func (s proto) steps(early bool) (next []proto) {
	add := func(f func(*proto)) {
		n := s
		f(&n)
		next = append(next, n)
	}
	drop := func(n *proto) {
		n.dropped[n.live] = true
		n.live = 0
	}
	mapNext := func(n *proto) { n.live, n.fresh = n.fresh, n.fresh+1 }
	if s.live == 0 && s.fresh <= lastMemory {
		add(mapNext)
	}
	if s.live != 0 {
		add(drop) // Free, Revoke, Finish, Retire
	}
	collect := func(n *proto) { n.batch, n.dropped = n.dropped, [4]bool{} }
	snapshot := func(n *proto) {
		for i, r := range n.reader {
			n.awaited[i] = r.pc != 0
		}
	}
	switch s.inv {
	case 0:
		add(func(n *proto) {
			if n.inv = 1; early {
				snapshot(n)
			} else {
				collect(n)
			}
		})
	case 1:
		add(func(n *proto) {
			if n.inv = 2; early {
				collect(n)
			} else {
				snapshot(n)
			}
		})
	case 2:
		if s.awaited == [2]bool{} {
			add(func(n *proto) {
				for m, in := range n.batch {
					n.gone[m] = n.gone[m] || in
				}
				n.inv, n.batch = 0, [4]bool{}
			})
		}
	}
	for i := range s.reader {
		switch s.reader[i].pc {
		case 0:
			if s.sections[i] > 0 {
				add(func(n *proto) { n.reader[i].pc, n.sections[i] = 1, n.sections[i]-1 }) // Enter
			}
		case 1:
			add(func(n *proto) { n.reader[i].pc, n.reader[i].holds = 2, n.live }) // Check
		case 2:
			add(func(n *proto) { n.reader[i].pc, n.reader[i].holds, n.awaited[i] = 0, 0, false }) // Leave
		}
	}
	return next
}

func (s proto) violation() error {
	for i, r := range s.reader {
		if r.holds != 0 && s.gone[r.holds] {
			return fmt.Errorf("reader %d holds memory %d, which was released", i, r.holds)
		}
	}
	if s.live != 0 && (s.dropped[s.live] || s.batch[s.live] || s.gone[s.live]) {
		return fmt.Errorf("memory %d is mapped and dropped", s.live)
	}
	return nil
}

// explore visits every state that can be reached.
func explore(early bool) (states int, bad error) {
	start := proto{fresh: 1, sections: [2]int8{2, 2}}
	seen := map[proto]bool{start: true}
	for ahead := []proto{start}; len(ahead) > 0; {
		s := ahead[len(ahead)-1]
		ahead = ahead[:len(ahead)-1]
		if err := s.violation(); err != nil {
			return len(seen), err
		}
		for _, n := range s.steps(early) {
			if !seen[n] {
				seen[n] = true
				ahead = append(ahead, n)
			}
		}
	}
	return len(seen), nil
}

func TestMRREQ6ModelNeverReleasesMemoryInUse(t *testing.T) {
	t.Parallel()
	states, err := explore(false)
	if err != nil {
		t.Error(err)
	}
	t.Logf("%d states", states)
	if states < 10000 {
		t.Errorf("only %d states", states)
	}
	if _, err := explore(true); err == nil {
		t.Error("the model does not see that a snapshot before the collection is wrong")
	}
}

// regionState is a model of a region and its pool.
type regionState struct {
	mapped bool
	dirty  int // dropped mappings
	once   bool
}

const (
	opMap = iota
	opMapOnce
	opFree
	opRevoke
	opUse
	opBarrier
	regionOps
)

var regionOpNames = [regionOps]string{"map", "map once", "free", "revoke", "use", "barrier"}

// next gives the outcome and the following state; the pool has room for two.
func (s regionState) next(op int) (regionState, bool) {
	room := s.dirty+btoi(s.mapped) < 2
	switch op {
	case opMap, opMapOnce:
		if s.mapped || !room {
			return s, s.mapped // the walk maps once only: no operation
		}
		return regionState{true, s.dirty, op == opMapOnce}, true
	case opFree, opRevoke:
		if !s.mapped {
			return s, false
		}
		return regionState{false, s.dirty + 1, false}, true
	case opUse:
		if !s.once {
			return s, false
		}
		return regionState{false, s.dirty + 1, false}, true
	}
	return regionState{s.mapped, 0, s.once}, true
}

// runTransitions does operations on a device of its own and compares it with the model.
func runTransitions(t *testing.T, path []int) {
	t.Helper()
	d, err := New(Config{Seed: 1, Small: PoolConfig{Items: 2, FlushItems: 99}, Bases: 8, Linger: -1, MapWait: -1})
	if err != nil {
		t.Fatal(err)
	}
	// A keeper started by the refusal of a map would invalidate by itself.
	d.flusher.closed = true
	dom, o := d.NewDomain(), d.NewOwner(OwnerConfig{Items: 2})
	r := d.NewReader("r", nil)
	var k Key
	var s regionState
	for i, op := range path {
		var ok bool
		was := s
		s, ok = s.next(op)
		opt := Options{Domain: dom, Rights: RemoteRead, Once: op == opMapOnce}
		req := &Request{Key: k, Domain: dom, From: peerA, Rights: RemoteRead, Len: 1, Use: new(Use)}
		var err error
		switch op {
		case opMap, opMapOnce:
			if !was.mapped {
				var n Key
				if n, err = o.Map(make([]byte, 8), opt); err == nil {
					k = n
				}
			}
		case opFree:
			err = o.Free(k)
		case opRevoke:
			err = r.Revoke(k, dom, peerA).Err()
		case opUse:
			fault(r, req)
			if !req.Use.Holds() {
				err = ErrKey
			}
			d.Finish(req.Use, true)
		case opBarrier:
			err = o.Barrier(t.Context())
		}
		p := d.Stats().Small
		if (err == nil) != ok || p.Live != btoi(s.mapped) || p.Dirty != s.dirty {
			t.Fatalf("%v: after step %d: error %v, %+v; want success %v, %+v", spell(regionOpNames[:], path), i+1, err, p, ok, s)
		}
		req.Key = k
		f := fault(r, req)
		if (f == None) != s.mapped {
			t.Fatalf("%v: after step %d: key gives %v, mapped %v", spell(regionOpNames[:], path), i+1, f, s.mapped)
		}
		d.Finish(req.Use, false)
	}
	r.Close()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestMRREQ6TransitionsOfARegion tries every sequence of five operations on a
// device with one base and compares it with the table of states.
func TestMRREQ6TransitionsOfARegion(t *testing.T) {
	t.Parallel()
	var path [5]int
	var walk func(depth int)
	walk = func(depth int) {
		if depth == len(path) {
			runTransitions(t, path[:])
			return
		}
		for op := range regionOps {
			path[depth] = op
			walk(depth + 1)
		}
	}
	for _, path[0] = range [...]int{opMap, opMapOnce} {
		walk(1)
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func spell(names []string, path []int) (s []string) {
	for _, op := range path {
		s = append(s, names[op])
	}
	return s
}
