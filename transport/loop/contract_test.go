package loop

import (
	"testing"

	"github.com/rds-go/rds/transport/transporttest"
)

func TestContract(t *testing.T) {
	transporttest.Bubble(t, func(*testing.T) transporttest.Env { return newEnv() })
}
