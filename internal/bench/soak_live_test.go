//go:build live

package bench

import (
	"strings"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
)

// A message that comes twice is an error, also when the life that had it first is over.
func TestSoakFindsRepetitions(t *testing.T) {
	j := newTestJournal()
	serve := func() *soakServer {
		s := newSoakServer(&soakProcess{spec: &soakSpec{Work: soakWork()}}, nil, 0, j)
		s.life = 1
		return s
	}
	s := serve()
	for n := range uint64(3) {
		rdstest.Must(t, s.take(&soakMessage{Number: n, FromLife: 5}))
	}
	for _, s := range []*soakServer{s, serve()} {
		if err := s.take(&soakMessage{Number: 2, FromLife: 5}); err == nil || !strings.Contains(err.Error(), "again") {
			t.Errorf("message 2 again: %v", err)
		}
		if err := s.take(&soakMessage{Number: 0, FromLife: 6}); err != nil && s.flows[flowKey{0, 6}].record.at(3) != 1 {
			t.Errorf("another life: %v", err)
		}
	}
	if err := serve().take(&soakMessage{Turn: uint32(turnBad), Number: 3, FromLife: 5}); err == nil {
		t.Error("what had to be refused is taken")
	}
}
