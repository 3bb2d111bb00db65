//go:build live

package bench

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
)

// Sixteen hosts of sixteen sockets: the kernel knows one connection for each pair
// of hosts, whoever talks to whom.
func TestOneConnectionForEachPairOfHosts(t *testing.T) {
	if _, err := os.Stat("/proc/self/net/tcp"); err != nil {
		t.Skip("needs the kernel's list of TCP connections: ", err)
	}
	for _, wire := range []rds.Wire{rds.WireAuto, rds.WireTCP} {
		o := goodOptions()
		o.Wire, o.Hosts, o.Sockets = string(wire), 16, 16
		r := Runner{Options: o}
		rep, err := r.Run(context.Background(), o.Plan(Connections))
		rdstest.Must(t, err)
		row := rep.Rows[0]
		f := row.RDS.Fabric
		if !row.Finished || f == nil || f.PerHost != 15 || f.Total != 120 || row.RDS.Messages != 256*240 {
			t.Fatalf("%+v, %+v", row, f)
		}
		if f.HeapPair > 1<<20 { // how little it is, memory of other tests that goes meanwhile hides
			t.Errorf("%.0f bytes of heap for a pair", f.HeapPair)
		}
		s := row.Sentence()
		for _, want := range []string{" 3840             30720", " 480              3840", " 15               120  counted"} {
			if !strings.Contains(s, want) {
				t.Errorf("no %q in %s", want, s)
			}
		}
	}
}
