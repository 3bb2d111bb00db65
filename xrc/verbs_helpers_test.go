package xrc

import (
	"errors"
	"os"
	"testing"

	"github.com/rds-go/rds/mr"
)

const slot = 256

// process is a session with what it takes to send and to receive.
type process struct {
	*Session
	dom *Domain
	pd  *PD
	cq  *CQ
	srq *SRQ
	mem *Region
}

// outfit makes a process of a session, in the domain of f, with a slot of memory for each receive.
func outfit(s *Session, f *os.File, receives, completions int, rights mr.Rights) (*process, error) {
	p := &process{Session: s}
	var errs [5]error
	p.dom, errs[0] = s.OpenDomain(f, os.O_CREATE)
	p.pd, errs[1] = s.AllocPD()
	p.cq, errs[2] = s.CreateCQ(completions)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	p.srq, errs[3] = s.CreateSRQ(SRQAttr{Domain: p.dom, PD: p.pd, CQ: p.cq, MaxWR: receives})
	p.mem, errs[4] = p.pd.Alloc(receives*slot, rights)
	return p, errors.Join(errs[:]...)
}

// must fails the test on an error.
func must(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}
