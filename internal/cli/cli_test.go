package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

func TestRunStatusAndMessage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		err    error
		args   []string
		status int
		stderr string
	}{
		{"success", nil, nil, 0, ""},
		{"failure", errors.New("no luck"), nil, 1, "tool: no luck\n"},
		{"several", errors.Join(errors.New("a"), errors.New("b")), nil, 1, "tool: a; b\n"},
		{"usage", Usagef("bad %s", "x"), nil, 2, "tool: bad x (see tool --help)\n"},
		{"wrapped usage", fmt.Errorf("file: %w", Usagef("bad")), nil, 2, "tool: file: bad (see tool --help)\n"},
		{"setup", fmt.Errorf("start: %w", WithStatus(2, errors.New("no"))), nil, 2, "tool: start: no\n"},
		{"silent", Exit(7), nil, 7, ""},
		{"unknown flag", nil, []string{"--nope"}, 2, "tool: unknown flag: --nope (see tool --help)\n"},
		{"argument", nil, []string{"x"}, 2, `tool: unknown command "x" for "tool" (see tool --help)` + "\n"},
		{"help", errors.New("not reached"), []string{"--help"}, 0, ""},
		{"version", errors.New("not reached"), []string{"--version"}, 0, ""},
	} {
		cmd := &cobra.Command{Use: "tool", Args: Args(cobra.NoArgs), RunE: func(*cobra.Command, []string) error { return c.err }}
		var out, stderr bytes.Buffer
		cmd.SetOut(&out)
		if got := RunTo(cmd, c.args, &stderr); got != c.status || stderr.String() != c.stderr {
			t.Errorf("%s: status %d, %q; want %d, %q", c.name, got, stderr.String(), c.status, c.stderr)
		}
	}
}

func TestStatusOfNilIsNil(t *testing.T) {
	t.Parallel()
	if Usage(nil) != nil || WithStatus(1, nil) != nil {
		t.Error("an error")
	}
}

func TestInterval(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   string
		want time.Duration
		ok   bool
	}{
		{"1", time.Second, true}, {"0.25", 250 * time.Millisecond, true}, {".5", 500 * time.Millisecond, true}, {"2s", 2 * time.Second, true},
		{"10ms", 10 * time.Millisecond, true}, {"1.5msec", 1500 * time.Microsecond, true}, {"7us", 7 * time.Microsecond, true}, {"7usec", 7 * time.Microsecond, true},
		{"0", 0, true}, {"1e3", 1000 * time.Second, true},
		{"", 0, false}, {"ms", 0, false}, {"-1", 0, false}, {"1h", 0, false}, {"1 s", 0, false}, {"nan", 0, false}, {"inf", 0, false}, {"1e300", 0, false},
	} {
		var got Interval
		if err := got.Set(c.in); (err == nil) != c.ok || time.Duration(got) != c.want {
			t.Errorf("%q: %v, %v; want %v, ok %v", c.in, &got, err, c.want, c.ok)
		}
	}
}

func TestNumber(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   string
		want Number
		ok   bool
	}{
		{"0", 0, true}, {"5", 5, true}, {"2k", 2048, true}, {"2K", 2048, true}, {"3m", 3 << 20, true}, {"1G", 1 << 30, true},
		{"", 0, false}, {"k", 0, false}, {"-1", 0, false}, {"1t", 0, false}, {"1.5k", 0, false},
		{"9223372036854775807", 1<<63 - 1, true}, {"9223372036854775808", 0, false}, {"9223372036854775807k", 0, false},
	} {
		var got Number
		if err := got.Set(c.in); (err == nil) != c.ok || got != c.want {
			t.Errorf("%q: %v, %v; want %v, ok %v", c.in, &got, err, c.want, c.ok)
		}
	}
}

func TestIsTerminal(t *testing.T) {
	t.Parallel()
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if IsTerminal(f) {
		t.Error("a file is a terminal")
	}
}
