package rdstest

import (
	"testing"
	"time"

	"github.com/rds-go/rds/internal/ipc"
)

// inBubble tells whether the test has a time of its own: that of testing/synctest begins in 2000,
// that of Bubble at the end of 2019, and no test lasts for years.
func inBubble() bool { return time.Now().Year() < 2025 }

// inProcess is the path of a service whose applications are in the same bubble.
func inProcess(t testing.TB) string {
	place := ipc.NewInProcess()
	t.Cleanup(place.Close)
	return place.Path
}
