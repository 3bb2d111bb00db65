//go:build live

package iwarp

import (
	"testing"
	"time"

	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// The watch can be turned off, and there is none where the peer knows no PING.
func TestNoWatch(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func(t *testing.T) *extended{
		"off": func(t *testing.T) *extended {
			e, _ := sharedHost(t)
			return openExtended(t, e, true, allCaps, SharedParams{Silence: -1})
		},
		"a peer without PING": func(t *testing.T) *extended {
			e, _ := sharedHost(t)
			return openExtended(t, e, true, allCaps&^xctl.CapPing, SharedParams{Silence: time.Millisecond})
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			x := f(t)
			_ = x.conn.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
			for err := error(nil); err == nil; {
				_, _, err = x.take()
			}
			if l := has[xctl.Ping](x); len(l) != 0 || x.e.qp.State() != StateRTS {
				t.Fatalf("%d PINGs, or %v", len(l), x.e.qp.Err())
			}
		})
	}
}
