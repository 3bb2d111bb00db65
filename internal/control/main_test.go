package control

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// halfEnv has this binary be an attacker: it holds a path and what to write there on each
// of how many connections.
const halfEnv = "RDS_TEST_HALF"

// half makes connections, writes the same to each, reads to the end if it is told to, and
// holds them until its standard input ends.
func half(what string) {
	var order struct {
		Path, Text  string
		Connections int
		Read        bool
	}
	err := json.Unmarshal([]byte(what), &order)
	var held []net.Conn
	for range order.Connections {
		c, e := net.Dial("unix", order.Path)
		if e != nil {
			err = e
			break
		}
		_, _ = io.WriteString(c, order.Text) // fails on a connection that the server has closed
		held = append(held, c)
		if order.Read {
			_, err = io.Copy(io.Discard, c)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("held", len(held))
	_, _ = os.Stdin.Read(make([]byte, 1))
	os.Exit(0)
}

func TestMain(m *testing.M) {
	if what := os.Getenv(halfEnv); what != "" {
		half(what)
	}
	goleak.VerifyTestMain(m)
}

// Serve is Config.Serve on a path, with the defaults of a Config.
func Serve(path string, snapshot func() (any, error)) (io.Closer, error) {
	return Config{Path: path}.Serve(snapshot)
}

// must ends a test with an error, unless that is nil.
func must(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}
