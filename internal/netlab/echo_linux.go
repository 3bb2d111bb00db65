package netlab

import (
	"fmt"
	"io"
	"net"
)

// Echo listens at a TCP port of the host, until the test ends, and sends back what comes.
func (h *Host) Echo(port int) {
	h.t.Helper()
	var l net.Listener
	var err error
	h.Do(func() { l, err = net.Listen("tcp", fmt.Sprintf(":%d", port)) })
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); _, _ = io.Copy(c, c) }()
		}
	}()
}
