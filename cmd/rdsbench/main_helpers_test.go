package main

import (
	"os"
	"testing"
)

// asCommand makes the test binary run as rdsbench itself, so that tests see
// real processes and exit codes.
const asCommand = "RDSBENCH_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}
