package bench

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Ticker shows on one line of a terminal what runs and for how long.
type Ticker struct {
	w    io.Writer
	stop chan struct{} // closed by Stop
	done chan struct{} // closed when the line is gone

	mu    sync.Mutex // guards the rest
	what  string
	since time.Time
	width int
}

// NewTicker starts a Ticker on a terminal.
func NewTicker(w io.Writer) *Ticker {
	t := &Ticker{w: w, stop: make(chan struct{}), done: make(chan struct{}), since: time.Now()}
	go t.loop()
	return t
}

func (t *Ticker) loop() {
	defer close(t.done)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			t.draw()
		case <-t.stop:
			t.mu.Lock()
			fmt.Fprintf(t.w, "\r%s\r", strings.Repeat(" ", t.width))
			t.mu.Unlock()
			return
		}
	}
}

// Show is a Runner's Progress.
func (t *Ticker) Show(run, runs int, what string) {
	t.mu.Lock()
	t.what, t.since = fmt.Sprintf("[%d/%d] %s", run, runs, what), time.Now()
	t.mu.Unlock()
	t.draw()
}

func (t *Ticker) draw() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.what == "" {
		return
	}
	line := fmt.Sprintf("%s  %.1f s", t.what, time.Since(t.since).Seconds())
	fmt.Fprintf(t.w, "\r%s%s", line, strings.Repeat(" ", max(t.width-len(line), 0)))
	t.width = len(line)
}

// Stop clears the line.
func (t *Ticker) Stop() {
	close(t.stop)
	<-t.done
}
