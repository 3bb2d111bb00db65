//go:build live

package main

import (
	"testing"
)

func TestWhyArguments(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"why", "10.0.0.256"}, `rdsinfo: "10.0.0.256": neither an IP address nor a host name (see rdsinfo --help)` + "\n"},
		{[]string{"why", "10.0.0.1", "2"}, `rdsinfo: unexpected argument "2" (see rdsinfo --help)` + "\n"},
		{[]string{"why", "--provider", "kernel"}, "rdsinfo: why is about nodes: Linux does not tell (see rdsinfo --help)\n"},
	} {
		if status, stdout, stderr := info(t, c.args...); status != 2 || stdout != "" || stderr != c.want {
			t.Errorf("%q: status %d, %s%s", c.args, status, stdout, stderr)
		}
	}
}
