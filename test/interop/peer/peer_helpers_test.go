package peer

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if name := os.Getenv(programEnv); name != "" {
		os.Exit(runAsProgram(name))
	}
	goleak.VerifyTestMain(m)
}

// programEnv has the test program run as a program of its own; its value names
// what to do.
const programEnv = "PEER_TEST_PROGRAM"

// runAsProgram does what programEnv asks for and returns the exit status.
func runAsProgram(name string) int {
	switch name {
	case "echo": // lines, until one of them says quit
		fmt.Println("ready")
		for in := bufio.NewScanner(os.Stdin); in.Scan() && in.Text() != "quit"; {
			fmt.Println("heard", in.Text())
		}
		return 3
	case "flood":
		fmt.Print(strings.Repeat("x", maxOutput+7))
		return 0
	}
	return 1
}

// must ends a test with an error, unless that is nil.
func must(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}
