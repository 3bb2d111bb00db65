package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// Bounds on what a client can make the server spend.
const (
	maxClients   = 32  // requests served at a time
	maxOfUser    = 16  // requests of one user served at a time
	maxReserved  = 8   // requests of root and of the server's user served beyond maxClients
	maxWaiting   = 256 // connections that are not served yet
	readTimeout  = 5 * time.Second
	writeTimeout = 30 * time.Second
	extraTimeout = 10 * time.Minute // for handlers of Config.Extra, such as a long profile
	maxHeader    = 4 << 10          // bytes; net/http adds 4 KiB of slack
)

// infoPath is where the snapshot is; its first element is the version.
const infoPath = "/v1/info"

// partsKey is the key in the query of infoPath that names a part of the snapshot.
const partsKey = "with"

// failure is the body of every answer that is not a snapshot.
type failure struct {
	Error string `json:"error"`
}

var errClosed = errors.New("control: closing")

type server struct {
	snapshot func() (any, error)
	with     func(parts []string) (any, error)
	extra    map[string]http.Handler
	listener net.Listener
	file     *socketFile // nil if the listener belongs to somebody else
	http     http.Server
	served   chan struct{} // closed by the goroutine that accepts

	mu     sync.Mutex // guards the fields below
	closed bool
	active sync.WaitGroup // running snapshots and handlers; Add under mu while not closed
}

// Serve answers on the socket with what snapshot returns, until the closer is
// closed. It fails with ErrInUse if a server answers on the path already; a
// socket file that a dead one left is replaced.
//
// Close removes the file, cuts the clients off and returns once no snapshot
// call and no extra handler is running any more.
func (c Config) Serve(snapshot func() (any, error)) (io.Closer, error) {
	l, file, err := c.listener()
	if err != nil {
		return nil, err
	}
	s := &server{snapshot: snapshot, with: c.With, extra: c.Extra, listener: l, file: file, served: make(chan struct{})}
	s.http = http.Server{
		Handler:     http.HandlerFunc(s.handle),
		ConnContext: withClient,
		ReadTimeout: cmp.Or(c.readTimeout, readTimeout),
		// handle bounds the writing, which takes longer for some requests.
		// net/http/pprof would refuse what lasts longer than WriteTimeout.
		MaxHeaderBytes: maxHeader,
		// What a client does wrong is told to that client only.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	s.http.SetKeepAlivesEnabled(false)
	go func() {
		defer close(s.served)
		_ = s.http.Serve(listing{l, &clients{serving: make(map[int]int)}}) // ends when Close closes the listener
	}()
	return s, nil
}

func (s *server) Close() error {
	s.mu.Lock()
	again := s.closed
	s.closed = true
	s.mu.Unlock()
	if again {
		return net.ErrClosed
	}
	if s.file != nil {
		s.file.remove()
	}
	err := s.http.Close()
	<-s.served
	s.active.Wait()
	return err
}

// leaveTime bounds Leave.
const leaveTime = 2 * time.Second

// File returns a descriptor of the listening socket, to be passed to another process.
func (s *server) File() (*os.File, error) {
	l, ok := s.listener.(interface{ File() (*os.File, error) })
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return l.File()
}

// Owns tells whether Close removes the socket file.
func (s *server) Owns() bool { return s.file != nil }

// Leave ends the server, whose socket and file are another process's by now: no request is
// taken any more, and those under way have a moment to end.
func (s *server) Leave() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	_ = s.http.Shutdown(ctx)
}

// begin tells whether a request may be served. The caller calls s.active.Done
// at its end.
func (s *server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.active.Add(1)
	}
	return !s.closed
}

// info makes a snapshot with the parts named, unless the server is closing.
func (s *server) info(parts []string) (any, error) {
	if !s.begin() {
		return nil, errClosed
	}
	defer s.active.Done()
	if s.with != nil && len(parts) > 0 {
		return s.with(parts)
	}
	return s.snapshot()
}

func (s *server) handle(w http.ResponseWriter, r *http.Request) {
	deadline := http.NewResponseController(w)
	_ = deadline.SetReadDeadline(time.Now().Add(writeTimeout)) // once it passes, net/http cancels the request's context
	if k, ok := r.Context().Value(clientKey{}).(*connection); ok && !k.begin(r.Context()) {
		answer(w, http.StatusServiceUnavailable, failure{"too many requests"})
		return
	}
	_ = deadline.SetWriteDeadline(time.Now().Add(writeTimeout))
	if h := s.extraFor(r.URL.Path); h != nil {
		if !s.begin() {
			answer(w, http.StatusServiceUnavailable, failure{errClosed.Error()})
			return
		}
		defer s.active.Done()
		// The deadline for reading too: once it passes, net/http cancels the
		// request's context although the client is still there.
		_ = deadline.SetReadDeadline(time.Now().Add(extraTimeout))
		_ = deadline.SetWriteDeadline(time.Now().Add(extraTimeout))
		h.ServeHTTP(w, r)
		return
	}
	switch {
	case r.URL.Path != infoPath:
		answer(w, http.StatusNotFound, failure{"no such report; there is " + infoPath})
		return
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", http.MethodGet)
		answer(w, http.StatusMethodNotAllowed, failure{"only GET is allowed"})
		return
	}
	v, err := s.info(r.URL.Query()[partsKey])
	if err != nil {
		answer(w, http.StatusServiceUnavailable, failure{err.Error()})
		return
	}
	answer(w, http.StatusOK, v)
}

// extraFor returns the handler of a path, nil if there is none.
func (s *server) extraFor(path string) http.Handler {
	for prefix, h := range s.extra {
		if strings.HasPrefix(path, prefix) {
			return h
		}
	}
	return nil
}

// answer writes v as JSON. It is encoded first, so that a snapshot which
// cannot be encoded is reported instead of cut.
func answer(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		status = http.StatusInternalServerError
		body, _ = json.Marshal(failure{err.Error()})
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // a client that left is no one to tell
}
