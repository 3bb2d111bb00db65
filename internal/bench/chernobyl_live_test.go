//go:build live

package bench

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
)

func chernobylOptions(t *testing.T) Options {
	o := serve(t)
	o.Provider, o.Depth, o.Batch = "", 0, 0
	o.Duration, o.Workers, o.Sizes, o.Baseline = 150*time.Millisecond, 20, []int{8 << 10}, true
	return o
}

// A rogue is refused and nobody else notices; on a plain connection its first bad
// key is the end for all.
func TestChernobylIsConfinedToTheRogue(t *testing.T) {
	o := chernobylOptions(t)
	o.Sizes, o.Repeat = []int{8 << 10, 1, 100_001}, 2
	rdstest.Must(t, o.Validate(Chernobyl))
	rep, err := (&Runner{Options: o}).Run(context.Background(), o.Plan(Chernobyl))
	rdstest.Must(t, err)
	if len(rep.Rows) != 3 {
		t.Fatalf("%d rows", len(rep.Rows))
	}
	for _, row := range rep.Rows {
		s, p := row.RDS.Thirds, row.Plain.Thirds
		if !row.Finished || s.Errors != 0 || s.Refused == 0 || s.Unanswered != 0 || row.RDS.TCPConns != 1 || row.RDS.Latency == nil ||
			slices.Contains(s.Rates[:], 0) || len(s.Series) == 0 {
			t.Errorf("%s: %+v, %+v", row.Title, row.RDS, s)
		}
		if p.Errors != 20 || p.Rates[0] == 0 || p.Rates[2] != 0 || len(p.Series) == 0 {
			t.Errorf("%s on a plain connection: %+v", row.Title, p)
		}
	}
	var text, page, picture strings.Builder
	rdstest.Must(t, errors.Join(rep.WriteText(&text), rep.WriteHTML(&page), rep.WriteSVG(&picture)))
	for what, s := range map[string]string{"20 errors of the others": text.String(), "a worker with bad keys": page.String(), "rogue, refused": picture.String()} {
		if !strings.Contains(s, what) {
			t.Errorf("no %q in\n%s", what, s)
		}
	}
}

// The same with sockets, which share the connection of two nodes.
func TestChernobylOfSockets(t *testing.T) {
	o := chernobylOptions(t)
	o.Provider, o.RDS, o.Sizes = rds.ProviderNode, true, []int{8 << 10, 1}
	rdstest.Must(t, o.Validate(Chernobyl))
	rep, err := (&Runner{Options: o}).Run(context.Background(), o.Plan(Chernobyl))
	rdstest.Must(t, err)
	if len(rep.Rows) != 2 {
		t.Fatalf("%d rows", len(rep.Rows))
	}
	for _, row := range rep.Rows {
		s := row.RDS.Thirds
		if !row.Finished || s.Errors != 0 || s.Refused == 0 || s.Cut != 0 || len(s.Rounds) != socketRounds || row.RDS.TCPConns != 1 || row.RDS.Latency == nil || len(s.Series) == 0 || row.Plain != nil {
			t.Errorf("%s: %+v, %+v", row.Title, row.RDS, s)
		}
	}
	var text, picture strings.Builder
	rdstest.Must(t, errors.Join(rep.WriteText(&text), rep.WriteSVG(&picture)))
	for what, s := range map[string]string{"20 sockets write 8 KiB": text.String(), "0 cut": text.String(), "operations of the sockets": picture.String()} {
		if !strings.Contains(s, what) {
			t.Errorf("no %q in\n%s", what, s)
		}
	}
}

func TestInterruptedChernobylKeepsWhatThereIs(t *testing.T) {
	o := chernobylOptions(t)
	interrupted(t, o, o.Plan(Chernobyl))
}
