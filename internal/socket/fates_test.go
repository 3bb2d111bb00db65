package socket

import (
	"testing"

	"github.com/rds-go/rds/conn"
)

// Fates of which there always is one to be read take no more memory than what waits.
func TestFatesThatAreNeverAllReadDoNotGrow(t *testing.T) {
	t.Parallel()
	const waiting, fates = 3000, 1 << 17
	var q Fates
	for i := range uint64(fates) {
		q.Queue.Push(conn.Fate{Token: i})
		q.N.Add(1)
		if i < waiting {
			continue
		}
		var f conn.Fate
		if !q.Take(&f, false) || f.Token != i-waiting {
			t.Fatalf("fate %d comes, not %d", f.Token, i-waiting)
		}
		if n := cap(q.Queue.All()); n > 8*waiting {
			t.Fatalf("memory for %d fates, of which %d wait", n, waiting)
		}
	}
}
