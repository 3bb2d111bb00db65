package bench

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"
)

// DefaultControlPort is the TCP port of the control connection to a server
// that was started by hand.
const DefaultControlPort = 16386

const (
	controlVersion = 1
	maxControlLine = 1 << 20 // bytes; 4,096 addresses take about 100 KB
	confirmLimit   = 10 * time.Second
)

// Operations of the control connection, in the order of their use.
const (
	opHello   = "hello"   // make a node with these settings
	opOpen    = "open"    // open what a work needs; the response has addresses
	opSnap    = "snap"    // tell CPU time
	opConfirm = "confirm" // wait until this many messages came, then as snap
	opClose   = "close"   // end the work
	opBye     = "bye"     // end the node
)

type hello struct {
	Version    int     `json:"version"`
	Provider   string  `json:"provider"`
	Port       uint16  `json:"port"`
	Paths      int     `json:"paths"`
	Congestion string  `json:"congestion,omitempty"`
	Buffers    Buffers `json:"buffers"`
	Loops      int     `json:"loops,omitempty"`
}

type request struct {
	Op        string    `json:"op"`
	Hello     *hello    `json:"hello,omitempty"`
	Work      *Work     `json:"work,omitempty"`
	Transport Transport `json:"transport,omitempty"`
	Count     uint64    `json:"count,omitempty"`
}

type response struct {
	Err   string           `json:"err,omitempty"`
	Lost  bool             `json:"lost,omitempty"` // not a response: the work under way has failed
	Addrs []netip.AddrPort `json:"addrs,omitempty"`
	Snap  snapshot         `json:"snap"`
}

// snapshot is a process as it is now.
type snapshot struct {
	CPU   time.Duration `json:"cpu"`   // since it started
	Count uint64        `json:"count"` // messages of the work under way
}

// lines sends and receives JSON values, one on a line.
type lines struct {
	conn net.Conn
	in   *bufio.Scanner

	mu sync.Mutex // guards writing
}

func newLines(c net.Conn) *lines {
	l := &lines{conn: c, in: bufio.NewScanner(c)}
	l.in.Buffer(make([]byte, 0, 4096), maxControlLine)
	return l
}

func (l *lines) write(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err = l.conn.Write(append(b, '\n'))
	return err
}

func (l *lines) read(v any) error {
	if !l.in.Scan() {
		if err := l.in.Err(); err != nil {
			return err
		}
		return io.EOF
	}
	return json.Unmarshal(l.in.Bytes(), v)
}

// controller is the client's end of the control connection. One goroutine
// reads it, so that a failure at the server is known at once.
type controller struct {
	lines     *lines
	responses chan response // closed when the connection ends
	failed    func(error)   // called at most a few times, from the reader
	done      chan struct{}
}

func newController(c net.Conn, failed func(error)) *controller {
	k := &controller{lines: newLines(c), responses: make(chan response, 1), failed: failed, done: make(chan struct{})}
	go k.read()
	return k
}

func (k *controller) read() {
	defer close(k.done)
	defer close(k.responses)
	for {
		var r response
		if err := k.lines.read(&r); err != nil {
			if !errors.Is(err, net.ErrClosed) {
				k.failed(fmt.Errorf("control connection: %w", err))
			}
			return
		}
		if r.Lost {
			k.failed(fmt.Errorf("server: %s", r.Err))
			continue
		}
		k.responses <- r
	}
}

// call sends a request and waits for its response.
func (k *controller) call(q request) (response, error) {
	if err := k.lines.write(q); err != nil {
		return response{}, fmt.Errorf("control connection: %w", err)
	}
	r, ok := <-k.responses
	switch {
	case !ok:
		return r, errors.New("the server ended the control connection")
	case r.Err != "":
		return r, fmt.Errorf("server: %s", r.Err)
	}
	return r, nil
}

// close ends the connection and waits for the reader.
func (k *controller) close() {
	k.lines.conn.Close()
	<-k.done
}
