//go:build live

package xrc

import (
	"testing"

	"github.com/rds-go/rds/transport/transporttest"
)

func TestSteadyStateAllocatesLittle(t *testing.T) { transporttest.Allocates(t, newBenchEnv, 24) }
