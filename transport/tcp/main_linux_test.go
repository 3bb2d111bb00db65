//go:build live

package tcp

import (
	"testing"

	"github.com/rds-go/rds/transport/transporttest"
)

func TestContract(t *testing.T) {
	transporttest.Run(t, func(t *testing.T) transporttest.Env { return newEnv(t, Options{}, Options{}) })
}
