package peer

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// Server executes commands on a stack.
type Server struct {
	stack Stack
	out   io.Writer
	wg    sync.WaitGroup

	mu      sync.Mutex // guards the fields below and writing to out
	tasks   map[uint64]*task
	sockets map[int]Socket
	last    int // number of the newest socket
}

// task is one command under way.
type task struct {
	cancel    context.CancelFunc
	messages  atomic.Int64
	congested atomic.Int64
	program   *program // program of an OpExec; nil: another command
}

// Serve executes the commands read from conn until it ends, then cancels what
// still runs, closes all sockets and returns.
func Serve(conn io.ReadWriter, stack Stack) error {
	s := &Server{stack: stack, out: conn, tasks: make(map[uint64]*task), sockets: make(map[int]Socket)}
	ctx, cancel := context.WithCancel(context.Background())
	defer s.closeSockets()
	defer s.wg.Wait()
	defer cancel()
	in := bufio.NewScanner(conn)
	in.Buffer(nil, maxLine)
	for in.Scan() {
		var r request
		if err := json.Unmarshal(in.Bytes(), &r); err != nil {
			return fmt.Errorf("peer: bad request: %w", err)
		}
		s.start(ctx, r)
	}
	return in.Err()
}

func (s *Server) start(ctx context.Context, r request) {
	ctx, cancel := context.WithCancel(ctx)
	t := &task{cancel: cancel}
	if r.Op == OpExec {
		t.program = newProgram()
	}
	s.mu.Lock()
	s.tasks[r.ID] = t
	s.mu.Unlock()
	s.wg.Go(func() {
		defer cancel()
		result, err := s.run(ctx, t, r)
		s.answer(r.ID, result, err)
	})
}

func (s *Server) answer(id uint64, result any, err error) {
	r := response{ID: id}
	if err == nil && result != nil {
		r.Result, err = json.Marshal(result)
	}
	if err != nil {
		r.Error = &Error{Text: err.Error()}
		_ = errors.As(err, &r.Error.Errno)
	}
	line, err := json.Marshal(r)
	if err != nil {
		return // cannot happen: r is plain data
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tasks, id)
	_, _ = s.out.Write(append(line, '\n')) // a client that is gone needs no answer
}

// do decodes a command's arguments and runs it.
func do[A any](r request, f func(A) (any, error)) (any, error) {
	var args A
	if err := json.Unmarshal(r.Args, &args); err != nil {
		return nil, err
	}
	return f(args)
}

func (s *Server) run(ctx context.Context, t *task, r request) (any, error) {
	switch r.Op {
	case OpBind:
		return do(r, s.bind)
	case OpClose:
		return do(r, s.close)
	case OpPing:
		return do(r, func(a PingArgs) (any, error) { return s.ping(ctx, a) })
	case OpSend:
		return do(r, func(a SendArgs) (any, error) { return s.send(ctx, t, a) })
	case OpRecv:
		return do(r, func(a RecvArgs) (any, error) { return s.recv(ctx, t, a) })
	case OpProgress:
		return do(r, s.progress)
	case OpCancel:
		return do(r, s.cancel)
	case OpCounters:
		return s.stack.Counters()
	case OpState:
		return s.stack.State()
	case OpLinks:
		return s.stack.Links()
	case OpTCP:
		return do(r, func(a TCPArgs) (any, error) { return tcpConns(cmp.Or(a.Port, RDSPort), a.Listeners) })
	case OpDestroy:
		return do(r, func(a TCPConn) (any, error) { return nil, destroy(a) })
	case OpExec:
		defer t.program.end()
		return do(r, func(a ExecArgs) (any, error) { return t.program.run(ctx, a) })
	case OpOutput:
		return do(r, func(a OutputArgs) (any, error) { return s.output(ctx, a) })
	case OpInput:
		return do(r, func(a InputArgs) (any, error) { return s.input(ctx, a) })
	case OpSysctl:
		return do(r, setSysctl)
	default:
		return nil, fmt.Errorf("peer: unknown command %q", r.Op)
	}
}

func (s *Server) bind(a BindArgs) (any, error) {
	socket, err := s.stack.Bind(a.Local, a.SendBuffer, a.ReceiveBuffer)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	s.sockets[s.last] = socket
	return BindResult{Socket: s.last, Local: socket.LocalAddrPort()}, nil
}

func (s *Server) socket(n int) (Socket, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if socket := s.sockets[n]; socket != nil {
		return socket, nil
	}
	return nil, syscall.EBADF
}

func (s *Server) close(a SocketArgs) (any, error) {
	socket, err := s.socket(a.Socket)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	delete(s.sockets, a.Socket)
	s.mu.Unlock()
	return nil, socket.Close()
}

func (s *Server) closeSockets() {
	s.mu.Lock()
	sockets := s.sockets
	s.sockets = nil
	s.mu.Unlock()
	for _, socket := range sockets {
		_ = socket.Close()
	}
}

func (s *Server) progress(a CallArgs) (any, error) {
	s.mu.Lock()
	t := s.tasks[a.Call]
	s.mu.Unlock()
	if t == nil {
		return ProgressResult{}, nil
	}
	return ProgressResult{Running: true, Messages: t.messages.Load(), Congested: t.congested.Load()}, nil
}

func (s *Server) cancel(a CallArgs) (any, error) {
	s.mu.Lock()
	t := s.tasks[a.Call]
	s.mu.Unlock()
	if t != nil {
		t.cancel()
	}
	return nil, nil
}

func setSysctl(a SysctlArgs) (any, error) {
	file := filepath.Join("/proc/sys", strings.ReplaceAll(a.Name, ".", "/"))
	return nil, os.WriteFile(file, []byte(a.Value), 0)
}
