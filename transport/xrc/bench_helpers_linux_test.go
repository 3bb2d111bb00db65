package xrc

import (
	"testing"

	"github.com/rds-go/rds/transport/transporttest"
)

func newBenchEnv(t testing.TB) transporttest.Env { return newEnv(t, Options{}, Options{}) }
