//go:build live

package main

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"
)

// Two processes, a hundred pings, with and without CRC.
func TestProcessesPing(t *testing.T) {
	t.Parallel()
	for _, crc := range []string{"on", "off"} {
		for _, size := range []string{"64", "4096", "64k"} {
			server, at := start(t, "rping", "server", "-V", "-C", "100", "--crc", crc)
			status, stdout, stderr := verbs(t, at, "rping", "client", "-C", "100", "-V", "-S", size, "--crc", crc)
			if want := "100 pings of " + strings.Replace(size, "64k", "65536", 1) + " bytes in "; status != 0 || stderr != "" ||
				!strings.Contains(stdout, want) || !strings.Contains(stdout, "CRC "+crc) {
				t.Errorf("client: status %d\n%s%s", status, stdout, stderr)
			}
			if status := server.Wait(); status != 0 || !strings.Contains(server.Stdout.String(), "100 pings of ") {
				t.Errorf("server: status %d\n%s%s", status, server.Stdout, server.Stderr)
			}
		}
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"--version", "rping client --version"} {
		status, stdout, stderr := verbs(t, nil, strings.Fields(args)...)
		if status != 0 || !strings.HasPrefix(stdout, "rdsverbs ") || !strings.Contains(stdout, runtime.Version()) || stderr != "" {
			t.Errorf("%s: status %d, %s%s", args, status, stdout, stderr)
		}
	}
}

func TestProcessPrintsWhatRpingPrints(t *testing.T) {
	t.Parallel()
	server, at := start(t, "rping", "server", "-v")
	status, stdout, stderr := verbs(t, at, "rping", "client", "-C", "1", "-v", "-I", "localhost", "-a", "localhost")
	const ping = "ping data: rdma-ping-0: ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqr\n"
	if status != 0 || stderr != "" || !strings.Contains(stdout, "\n"+ping) {
		t.Errorf("client: status %d\n%s%s", status, stdout, stderr)
	}
	if status := server.Wait(); status != 0 || !strings.Contains(server.Stdout.String(), "\nserver "+ping) {
		t.Errorf("server: status %d\n%s", status, server.Stdout)
	}
}

// A server whose client did not ping as often as it should have fails.
func TestServerMissesPings(t *testing.T) {
	t.Parallel()
	server, at := start(t, "rping", "server", "-C", "4")
	verbs(t, at, "rping", "client", "-C", "3")
	if status := server.Wait(); status != 1 || !strings.Contains(server.Stdout.String(), "3 pings, 4 were expected") {
		t.Errorf("status %d\n%s", status, server.Stdout)
	}
}

func TestProcessesServeAndOperate(t *testing.T) {
	t.Parallel()
	server, at := start(t, "serve", "--region", "x:64k:rw", "--region", "ro:4k:r", "--recv", "4:4k", "--count", "2")
	key := func(name string) string {
		for line := range strings.Lines(server.Stdout.String()) {
			var r region
			if json.Unmarshal([]byte(line), &r) == nil && r.Type == "region" && r.Name == name {
				return "key=" + r.Key + ",addr=" + r.Address
			}
		}
		t.Fatalf("no region %s in\n%s", name, server.Stdout)
		return ""
	}
	status, stdout, stderr := verbs(t, at, "op", "write:len=64,count=100,"+key("x"), "read:len=64,"+key("x"), "send:len=4096")
	if status != 0 || stderr != "" || strings.Count(stdout, `"success"`) != 3 {
		t.Errorf("status %d\n%s%s", status, stdout, stderr)
	}
	status, stdout, stderr = verbs(t, at, "op", "write:len=64,"+key("ro"))
	if status != 1 || stderr != "" || !strings.Contains(stdout, `"terminate":{"sender":"peer","cause":"0x1100"`) {
		t.Errorf("status %d\n%s%s", status, stdout, stderr)
	}
	if status := server.Wait(); status != 0 || strings.Count(server.Stdout.String(), `"type":"end"`) != 2 {
		t.Errorf("server: status %d\n%s%s", status, server.Stdout, server.Stderr)
	}
}

func TestServeEndsAfterDuration(t *testing.T) {
	t.Parallel()
	status, stdout, stderr := verbs(t, nil, "serve", "-a", "127.0.0.1", "-p", "0", "--duration", "50ms")
	if status != 0 || stderr != "" || !strings.Contains(stdout, "listening") {
		t.Errorf("status %d\n%s%s", status, stdout, stderr)
	}
}

func TestDevinfo(t *testing.T) {
	t.Parallel()
	if status, stdout, _ := verbs(t, nil, "devinfo"); status != 0 || !strings.Contains(stdout, "max_sge:") {
		t.Errorf("status %d\n%s", status, stdout)
	}
	var d device
	status, stdout, _ := verbs(t, nil, "devinfo", "--json")
	if err := json.Unmarshal([]byte(stdout), &d); status != 0 || err != nil || d.Type != "device" || d.MaxSGE < 1 || !d.Extensions {
		t.Errorf("status %d, %v\n%s", status, err, stdout)
	}
}

func TestWrongUsage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args string
		want string
	}{
		{"", "rdsverbs what?"},
		{"rping", "rdsverbs rping what?"},
		{"fly", `unknown command "fly"`},
		{"rping client", "whose --address?"},
		{"rping client -a 127.0.0.1 -S 22", "size 22 is not in 23..65536"},
		{"rping client -a 127.0.0.1 -S 65537", "size 65537"},
		{"rping server --crc maybe", "want on or off"},
		{"rping server --ird 16383", "--ird 16383 is not in 0..16382"},
		{"serve --region x:1:z", "want NAME:SIZE:RIGHTS"},
		{"serve --recv 5", "want COUNT:LENGTH"},
		{"op -a 127.0.0.1 write:colour=red", "no such parameter"},
		{"op -a 127.0.0.1 --peer-to-peer wait", "--not-siw"},
		{"op -a 127.0.0.1 --rtr call wait", "want send, write or read"},
		{"devinfo now", "unknown command"},
	} {
		status, stdout, stderr := verbs(t, nil, strings.Fields(c.args)...)
		if status != 2 || stdout != "" || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: status %d\n%s%s", c.args, status, stdout, stderr)
		}
	}
}
