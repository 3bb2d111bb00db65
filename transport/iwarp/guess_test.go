//go:build live

package iwarp

import (
	"testing"

	"github.com/rds-go/rds/mr"
)

// Where look-ups are paced, a peer is told the same of every key that it was not given,
// whatever is wrong, and whether it was looked up or not. What it was given works meanwhile.
func TestGuessesAreAnsweredAlike(t *testing.T) {
	t.Parallel()
	for _, op := range []Op{OpRead, OpWrite, OpFetchAdd} {
		t.Run(op.String(), func(t *testing.T) { guessAlike(t, op) })
	}
}

func guessAlike(t *testing.T, op Op) {
	t.Parallel()
	client, server, _ := sharedPair(t, Config{Memory: mr.Config{PeerLookUps: 16, LookUps: 1024}}, ConnParams{}, ConnParams{})
	regions := server.dev.Regions()
	const base = 5 << 12
	register := func(rights mr.Rights) *MR {
		m, err := server.qp.pd.RegMR(make([]byte, 8192), rights, base)
		must(t, err)
		return m
	}
	given, live, readOnly, dead := register(allRights), register(allRights), register(mr.LocalWrite|mr.RemoteRead), register(allRights)
	must(t, dead.Dereg(within(t)))
	regions.Give(given.Key(), regions.Peer(server.est.Remote.Addr()))
	local := client.reg(8192, mr.LocalWrite)
	ask := func(op Op, key mr.Key, addr uint64) WorkRequest {
		return WorkRequest{ID: 1, Op: op, Flags: Signaled, SGE: []SGE{local.SGE(0, 8)}, RemoteKey: key, RemoteAddr: addr}
	}
	causes := make(map[uint32]int)
	guesses := 0
	for range 8 { // the first rounds have tokens
		for _, w := range []WorkRequest{ask(op, live.Key()^1<<20, base), ask(op, dead.Key(), base), ask(op, readOnly.Key()^1, base), ask(op, live.Key(), base-4096), ask(op, live.Key(), base+8192)} {
			client.send(w, ask(OpRead, given.Key(), base))
			causes[client.want(1, RemoteAccess, op).Vendor]++
			client.want(1, Success, OpRead)
			guesses++
		}
	}
	if len(causes) != 1 {
		t.Errorf("causes %v", causes)
	}
	bad := regions.Stats().BadKeys
	if bad[mr.Denied]+bad[mr.Unseen] != uint64(guesses) || bad[mr.Unseen] == 0 || bad[mr.Denied] < 16 {
		t.Errorf("%d guesses, counted %v", guesses, bad)
	}
	client.send(ask(op, live.Key(), base)) // good, and not looked up
	client.want(1, RemoteAccess, op)
	for f, n := range bad {
		if f := mr.Fault(f); n > 0 && f != mr.Denied && f != mr.Unseen {
			t.Errorf("%d times %v", n, f)
		}
	}
}
