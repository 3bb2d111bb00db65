package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/rds-go/rds/rds"
)

// Ready is the line that a server started by a Runner prints when its control
// connection can be made.
type Ready struct {
	Control netip.AddrPort `json:"control"`
}

// endLimit is how long a server that was started may take to end by itself.
const endLimit = 3 * time.Second

// child is a server process that this one has started.
type child struct {
	cmd     *exec.Cmd
	stdin   io.Closer // the child ends when this does
	control netip.AddrPort
}

// startChild runs `rdsbench server` on ip with more flags.
func startChild(ctx context.Context, program string, ip netip.Addr, flags ...string) (*child, error) {
	args := append([]string{"server", "--child", "--listen", ip.String(), "--control-port", "0"}, flags...)
	cmd := exec.Command(program, args...)
	cmd.Stderr = os.Stderr
	dieWithParent(cmd)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	c := &child{cmd: cmd, stdin: stdin}
	stop := context.AfterFunc(ctx, func() { cmd.Process.Kill() })
	defer stop()
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	var ready Ready
	if err == nil {
		err = json.Unmarshal(line, &ready)
	}
	if err != nil {
		c.end()
		return nil, fmt.Errorf("the server did not start: %w", err)
	}
	c.control = ready.Control
	return c, nil
}

// end has the child end, by force if it takes too long, and waits for it.
func (c *child) end() error {
	c.stdin.Close()
	kill := time.AfterFunc(endLimit, func() { c.cmd.Process.Kill() })
	defer kill.Stop()
	return c.cmd.Wait()
}

// WhenStdinEnds calls end when standard input does: the server's parent has
// gone.
func WhenStdinEnds(end func()) {
	go func() {
		io.Copy(io.Discard, os.Stdin)
		end()
	}()
}

// freePort returns an RDS port that can be listened on at all of ips: want,
// or the standard one if want is 0, or then any other that is free.
func freePort(want uint16, ips ...netip.Addr) (uint16, error) {
	try := func(port uint16) (uint16, error) {
		var ls []net.Listener
		defer func() {
			for _, l := range ls {
				l.Close()
			}
		}()
		for _, ip := range ips {
			l, err := net.Listen("tcp", net.JoinHostPort(ip.String(), strconv.Itoa(int(port))))
			if err != nil {
				return 0, err
			}
			ls = append(ls, l)
			port = l.Addr().(*net.TCPAddr).AddrPort().Port()
		}
		return port, nil
	}
	if want != 0 {
		return try(want)
	}
	if port, err := try(rds.DefaultPort); err == nil {
		return port, nil
	}
	var errs error
	for range 10 { // a port free on one address may be taken on another
		port, err := try(0)
		if err == nil {
			return port, nil
		}
		errs = errors.Join(errs, err)
	}
	return 0, errs
}
