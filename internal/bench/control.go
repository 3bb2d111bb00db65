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

	"github.com/rds-go/rds/rds"
)

// DefaultControlPort is the TCP port of the control connection to a server
// that was started by hand.
const DefaultControlPort = 16386

const (
	controlVersion = 3
	maxControlLine = 1 << 20 // bytes; 4,096 addresses take about 100 KB
	confirmLimit   = 10 * time.Second
)

// Operations of the control connection, in the order of their use.
const (
	opHello   = "hello"   // open a provider with these settings
	opOpen    = "open"    // open what a work needs; the response has addresses
	opSnap    = "snap"    // tell CPU time
	opConfirm = "confirm" // wait until this many messages came, then as snap
	opSoak    = "soak"    // be a process of a soak, after hello
	opStop    = "stop"    // end the soak, or the sender; the response has its figures
	opClose   = "close"   // end the work
	opBye     = "bye"     // end the provider
)

// Operations for processes that were started for them only. All but opServe
// come after hello.
const (
	opServe   = "serve"   // be an rdsd with these settings
	opMemory  = "memory"  // tell memory in use, after a collection
	opSend    = "send"    // be a sender of a work
	opMeasure = "measure" // the sender's figures count from now
	opCut     = "cut"     // cut connections; the response has their number as count
	opPeer    = "peer"    // news of a server socket of the soak; there is no response
)

type hello struct {
	TCPSettings

	Version  int    `json:"version"`
	Provider string `json:"provider"`
	Socket   string `json:"socket,omitempty"` // path of the rdsd's socket
	State    string `json:"state,omitempty"`  // path of the rdsd's state file; empty: it has none
	Node     uint16 `json:"node,omitempty"`   // port of a node to compare the provider with; 0: none
	Port     uint16 `json:"port"`
	Paths    int    `json:"paths"`

	Reconnect bool          `json:"reconnect,omitempty"` // attach to the next rdsd when one has ended
	Attach    time.Duration `json:"attach,omitempty"`    // how long to try, where an earlier process may not be quite gone

	Wire    rds.Wire `json:"wire,omitempty"`     // wire of the nodes
	CRC     rds.CRC  `json:"crc,omitempty"`      // CRC that the nodes ask for
	Guesses bool     `json:"guesses,omitempty"`  // the work asks for regions that do not exist as often as for those that do: the nodes do not pace that
	OverTCP uint16   `json:"over_tcp,omitempty"` // port of a node with RDS over TCP to compare with; 0: none
}

type request struct {
	Op        string    `json:"op"`
	Hello     *hello    `json:"hello,omitempty"`
	Work      *Work     `json:"work,omitempty"`
	Transport Transport `json:"transport,omitempty"`
	Count     uint64    `json:"count,omitempty"`

	Addrs []netip.AddrPort `json:"addrs,omitempty"` // a sender's destinations
	First int              `json:"first,omitempty"` // index of the first destination to send to

	Keys []uint64 `json:"keys,omitempty"` // keys that a sender uses

	Soak *soakSpec `json:"soak,omitempty"`
	Peer *soakPeer `json:"peer,omitempty"`
}

type response struct {
	Err   string           `json:"err,omitempty"`
	Lost  bool             `json:"lost,omitempty"` // not a response: the work under way has failed
	Addrs []netip.AddrPort `json:"addrs,omitempty"`
	Snap  snapshot         `json:"snap"`
	Sent  *sent            `json:"sent,omitempty"`

	Keys []uint64 `json:"keys,omitempty"` // keys or cookies of the memory of the work

	Life     *soakPeer `json:"life,omitempty"`     // not a response: a server socket of a soak has begun a life
	Journals [][]byte  `json:"journals,omitempty"` // journals of a soak that are in no files
}

// snapshot is a process as it is now.
type snapshot struct {
	At    time.Duration `json:"at"`              // time of the snapshot, by a clock of the process's own
	CPU   time.Duration `json:"cpu"`             // CPU time since the process started
	Count uint64        `json:"count"`           // messages of the work under way, received or by a flood sent; exchanges of a soak
	Conns int           `json:"conns,omitempty"` // TCP connections under RDS, of a soak
	Sum   uint64        `json:"sum,omitempty"`   // sum of the words of an Atomic work

	Heap     int64 `json:"heap,omitempty"` // bytes, with opMemory
	Resident int64 `json:"resident,omitempty"`
}

func (s *snapshot) add(o *snapshot) {
	s.CPU += o.CPU
	s.Count += o.Count
	s.Sum += o.Sum
	s.Conns += o.Conns
}

// lines sends and receives JSON values, one on a line.
type lines struct {
	in *bufio.Scanner

	mu  sync.Mutex // guards writing
	out io.Writer
}

func newLines(c io.ReadWriter) *lines {
	l := &lines{out: c, in: bufio.NewScanner(c)}
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
	_, err = l.out.Write(append(b, '\n'))
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

// controller is the client's end of a control connection. One goroutine reads
// it, so that a failure at the other end is known at once.
type controller struct {
	peer      string // name of the other end, for errors
	conn      io.ReadWriteCloser
	lines     *lines
	responses chan response // closed when the connection ends
	done      chan struct{}

	mu     sync.Mutex     // guards the rest
	failed func(error)    // called at most a few times, from the reader; nil: nobody cares
	told   func(soakPeer) // called from the reader; nil: nobody cares
}

func newController(peer string, c io.ReadWriteCloser) *controller {
	k := &controller{peer: peer, conn: c, lines: newLines(c), responses: make(chan response, 1), done: make(chan struct{})}
	go k.read()
	return k
}

// watch has failed called when the other end fails, in place of the function
// before; nil for nobody.
func (k *controller) watch(failed func(error)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.failed = failed
}

// listen has told called with what servers of a soak tell.
func (k *controller) listen(told func(soakPeer)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.told = told
}

// tell tells of a life.
func (k *controller) tell(p soakPeer) {
	k.mu.Lock()
	told := k.told
	k.mu.Unlock()
	if told != nil {
		told(p)
	}
}

func (k *controller) fail(err error) {
	k.mu.Lock()
	failed := k.failed
	k.mu.Unlock()
	if failed != nil {
		failed(fmt.Errorf("%s: %w", k.peer, err))
	}
}

func (k *controller) read() {
	defer close(k.done)
	defer close(k.responses)
	for {
		var r response
		if err := k.lines.read(&r); err != nil {
			switch {
			case errors.Is(err, io.EOF):
				k.fail(errors.New("it has ended"))
			case !errors.Is(err, net.ErrClosed):
				k.fail(fmt.Errorf("control connection: %w", err))
			}
			return
		}
		if r.Lost {
			k.fail(errors.New(r.Err))
			continue
		}
		if r.Life != nil {
			k.tell(*r.Life)
			continue
		}
		k.responses <- r
	}
}

// call sends a request and waits for its response.
func (k *controller) call(q request) (response, error) {
	if err := k.lines.write(q); err != nil {
		return response{}, fmt.Errorf("%s: control connection: %w", k.peer, err)
	}
	r, ok := <-k.responses
	switch {
	case !ok:
		return r, fmt.Errorf("%s: it has ended", k.peer)
	case r.Err != "":
		return r, fmt.Errorf("%s: %s", k.peer, r.Err)
	}
	return r, nil
}

// close ends the connection and waits for the reader.
func (k *controller) close() {
	k.watch(nil)
	k.conn.Close()
	<-k.done
}
