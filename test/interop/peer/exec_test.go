//go:build !live

package peer

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// startProgram starts this test program as another.
func startProgram(t *testing.T, c *Client, name string) *Call {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	call, err := c.Start(OpExec, ExecArgs{Argv: []string{self}, Env: []string{programEnv + "=" + name}})
	must(t, err)
	return call
}

// waitOutput reads a program's output until it ends with text.
func waitOutput(t *testing.T, call *Call, text string) {
	t.Helper()
	var out string
	for !strings.HasSuffix(out, text) {
		r, err := call.Output(t.Context(), len(out))
		if out += r.Output; err != nil || !r.Running {
			t.Fatalf("%q, %+v, %v; want %q", out, r, err, text)
		}
	}
}

func TestProgramsTalkWhileTheyRun(t *testing.T) {
	call := startProgram(t, start(t), "echo")
	waitOutput(t, call, "ready\n")
	must(t, call.Input(t.Context(), "a\nb\n"))
	waitOutput(t, call, "heard a\nheard b\n")
	must(t, call.Input(t.Context(), "quit\n"))
	var r ExecResult
	if err := call.Wait(t.Context(), &r); err != nil || r.Status != 3 || r.Output != "ready\nheard a\nheard b\n" || r.Cut != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := call.Output(t.Context(), 0); r.Running || r.Output != "" || err != nil {
		t.Errorf("output after the end: %+v, %v", r, err)
	}
	if err := call.Input(t.Context(), "late\n"); err == nil {
		t.Error("input after the end: no error")
	}
}

func TestProgramsAreKilled(t *testing.T) {
	call := startProgram(t, start(t), "echo")
	waitOutput(t, call, "ready\n")
	must(t, call.Cancel(t.Context()))
	var r ExecResult
	if err := call.Wait(t.Context(), &r); err != nil || r.Status != -1 || r.Output != "ready\n" {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestOutputOfProgramsIsBounded(t *testing.T) {
	var r ExecResult
	if err := startProgram(t, start(t), "flood").Wait(t.Context(), &r); err != nil || len(r.Output) != maxOutput || r.Cut != 7 {
		t.Errorf("%d bytes, %d cut, %v", len(r.Output), r.Cut, err)
	}
}

func TestProgramsThatDoNotStart(t *testing.T) {
	c := start(t)
	for _, argv := range [][]string{nil, {"/nowhere/at/all"}} {
		call, err := c.Start(OpExec, ExecArgs{Argv: argv})
		must(t, err)
		if err := call.Input(t.Context(), "hello"); err == nil {
			t.Errorf("%q: input taken", argv)
		}
		if err := call.Wait(t.Context(), nil); err == nil || errors.Is(err, ErrGone) {
			t.Errorf("%q: %v", argv, err)
		}
	}
	if err := c.Call(t.Context(), OpInput, InputArgs{Call: 999, Text: "x"}, nil); err == nil {
		t.Error("input for no command: no error")
	}
}
