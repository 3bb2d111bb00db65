package peer

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if name := os.Getenv(programEnv); name != "" {
		os.Exit(runAsProgram(name))
	}
	goleak.VerifyTestMain(m)
}
