package control

import (
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"
)

// Bounds on what a client can make the server spend.
const (
	maxClients   = 32
	readTimeout  = 5 * time.Second
	writeTimeout = 30 * time.Second
	maxHeader    = 4 << 10 // bytes; net/http adds 4 KiB of slack
)

// infoPath is where the snapshot is; its first element is the version.
const infoPath = "/v1/info"

// failure is the body of every answer that is not a snapshot.
type failure struct {
	Error string `json:"error"`
}

var errClosed = errors.New("control: closing")

type server struct {
	snapshot func() (any, error)
	file     *socketFile
	http     http.Server
	served   chan struct{} // closed by the goroutine that accepts

	mu     sync.Mutex // guards the fields below
	closed bool
	active sync.WaitGroup // running snapshots; Add under mu while not closed
}

// Serve creates the socket file path and answers on it with what snapshot
// returns, until the closer is closed. It fails with ErrInUse if a server
// answers there already; a socket file that a dead one left is replaced.
//
// Close removes the file, cuts the clients off and returns once no snapshot
// call is running any more.
func Serve(path string, snapshot func() (any, error)) (io.Closer, error) {
	l, file, err := listen(path)
	if err != nil {
		return nil, err
	}
	s := &server{snapshot: snapshot, file: file, served: make(chan struct{})}
	s.http = http.Server{
		Handler:        http.HandlerFunc(s.handle),
		ReadTimeout:    readTimeout,
		WriteTimeout:   writeTimeout,
		MaxHeaderBytes: maxHeader,
		// What a client does wrong is told to that client only.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	s.http.SetKeepAlivesEnabled(false)
	go func() {
		defer close(s.served)
		_ = s.http.Serve(newLimited(l, maxClients)) // ends when Close closes the listener
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
	s.file.remove()
	err := s.http.Close()
	<-s.served
	s.active.Wait()
	return err
}

// info calls snapshot unless the server is closing.
func (s *server) info() (any, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, errClosed
	}
	s.active.Add(1)
	s.mu.Unlock()
	defer s.active.Done()
	return s.snapshot()
}

func (s *server) handle(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path != infoPath:
		answer(w, http.StatusNotFound, failure{"no such report; there is " + infoPath})
		return
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", http.MethodGet)
		answer(w, http.StatusMethodNotAllowed, failure{"only GET is allowed"})
		return
	}
	v, err := s.info()
	if err != nil {
		answer(w, http.StatusServiceUnavailable, failure{err.Error()})
		return
	}
	answer(w, http.StatusOK, v)
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
