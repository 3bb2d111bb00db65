package peer

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

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
