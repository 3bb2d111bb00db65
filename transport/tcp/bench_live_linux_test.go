//go:build live

package tcp

import (
	"testing"

	"github.com/rds-go/rds/transport/transporttest"
)

func TestSteadyStateAllocatesNothing(t *testing.T) { transporttest.Allocates(t, newBenchEnv, 0.5) }
