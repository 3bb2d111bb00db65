package logsink

import (
	"bytes"
	"io"
	"sync"
	"time"
)

// room is how many bytes a Sink keeps.
const room = 256 << 10

// maxWrite bounds one write to the file.
const maxWrite = 64 << 10

// Sink is where a program logs to.
type Sink struct {
	file io.Writer
	lost func(lines uint64) []byte // the line that says how many are lost

	done chan struct{} // closed when nothing is written any more

	mu      sync.Mutex // guards the fields below; a leaf
	work    *sync.Cond // there is something to write, or closing
	kept    []byte     // lines to be written
	under   int        // bytes being written
	dropped uint64     // lines lost so far
	untold  uint64     // part of dropped that no line has said
	closing bool
}

// New makes a sink and its goroutine. lost makes the line that says how many lines are lost.
func New(file io.Writer, lost func(lines uint64) []byte) *Sink {
	s := &Sink{file: file, lost: lost, done: make(chan struct{})}
	s.work = sync.NewCond(&s.mu)
	go s.run()
	return s
}

// Write implements io.Writer: it keeps b, which is whole lines, or counts them.
func (s *Sink) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing || len(s.kept)+s.under+len(b) > room {
		s.loseLocked(b)
		return len(b), nil
	}
	s.kept = append(s.kept, b...)
	s.work.Signal()
	return len(b), nil
}

func (s *Sink) loseLocked(b []byte) {
	n := uint64(bytes.Count(b, []byte("\n")))
	s.dropped += n
	s.untold += n
}

// Sync does nothing: waiting for the file is what a Sink is not to do.
func (s *Sink) Sync() error { return nil }

// Dropped is how many lines are lost so far.
func (s *Sink) Dropped() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dropped
}

// run writes until the sink is closed and nothing is left.
func (s *Sink) run() {
	defer close(s.done)
	var out []byte
	works := false // the file has taken the last write
	s.mu.Lock()
	for {
		for len(s.kept) == 0 && !s.closing && !(works && s.untold > 0) {
			s.work.Wait()
		}
		told := s.untold
		if len(s.kept) == 0 && (told == 0 || !works) {
			s.mu.Unlock()
			return
		}
		out, s.kept = s.kept, out[:0]
		if s.under, s.untold = len(out), 0; told > 0 {
			out = append(out, s.lost(told)...) // behind the lines that were kept when others were lost
		}
		s.mu.Unlock()
		n := s.writeAll(out)
		s.mu.Lock()
		s.under = 0
		if works = n == len(out); !works {
			s.loseLocked(out[n:])
			if told > 0 { // the last line was none of the program's
				s.dropped--
				s.untold += told - 1
			}
		}
		if cap(out) > 2*maxWrite {
			out = nil
		}
	}
}

// writeAll writes whole lines as far as the file takes them, and returns how many bytes
// that are.
func (s *Sink) writeAll(out []byte) (n int) {
	for n < len(out) {
		end := len(out)
		if end-n > maxWrite {
			end = n + maxWrite
			if i := bytes.LastIndexByte(out[n:end], '\n'); i >= 0 {
				end = n + i + 1
			}
		}
		took, err := s.file.Write(out[n:end])
		n += took
		if err != nil {
			return n
		}
	}
	return n
}

// Close ends the sink. It returns when all lines are written, or after limit: a file that
// takes nothing must not keep a program from ending.
func (s *Sink) Close(limit time.Duration) {
	s.mu.Lock()
	s.closing = true
	s.work.Signal()
	s.mu.Unlock()
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-s.done:
	case <-late.C:
	}
}
