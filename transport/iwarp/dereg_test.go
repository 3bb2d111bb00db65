//go:build !live

package iwarp

import (
	"context"
	"testing"
	"time"

	"github.com/rds-go/rds/mr"
)

// Dereg returns nil when no section uses the region any more, and not before, also of a region whose key the peer has
// invalidated meanwhile.
func TestDeregWaitsForSections(t *testing.T) {
	t.Parallel()
	for name, revoked := range map[string]bool{"live": false, "revoked": true} {
		inBubble(t, name, func(t *testing.T) {
			e := newEnd(t, openDevice(t, Config{}), QPConfig{})
			m := e.reg(64, mr.LocalWrite|mr.RemoteWrite)
			section := e.dev.regions.NewReader("test", nil)
			t.Cleanup(section.Close)
			section.Enter()
			if _, fault := section.Check(&mr.Request{Key: m.Key(), Domain: e.pd.domain, Rights: mr.RemoteWrite, Addr: m.Base(), Len: 1}); fault != mr.None {
				t.Fatal(fault)
			}
			if revoked { // as for a Send with Invalidate, which has the key dead while the section goes on
				must(t, e.pd.owner.Free(m.Key()))
			}
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			defer cancel()
			wantErr(t, "in a section", m.Dereg(ctx), mr.ErrInterrupted)
			section.Leave()
			if err := e.pd.owner.Barrier(within(t)); err != nil {
				t.Error(err)
			}
		})
	}
}
