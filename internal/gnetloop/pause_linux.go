package gnetloop

import (
	"reflect"

	"github.com/panjf2000/gnet/v2"

	"github.com/rds-go/rds/transport"
)

// gnet has no way to stop reading from one connection: its event loops are
// level-triggered, and read what there is. So a paused connection is taken out of its
// event loop's epoll instance, and put back when it is to be read again. Registering
// it for no event would not do: epoll reports a connection that both sides have ended
// all the same, and gnet closes it with what it has not read.

// Pause stops reading. It is called on the event loop, from within Feed or Wake. The
// end of the connection is not noticed before Resume either, and draining does not
// time out.
func (c *Conn) Pause() {
	c.mu.Lock()
	if c.paused || c.phase != open || c.aborting {
		c.mu.Unlock()
		return
	}
	err := c.loop.pause()
	c.paused = err == nil
	c.mu.Unlock()
	if err != nil {
		c.Fail(err)
	}
}

// Resume goes on reading. It is called on the event loop, from within Wake.
func (c *Conn) Resume() {
	c.mu.Lock()
	if !c.paused || c.phase != open || c.aborting {
		c.mu.Unlock()
		return
	}
	c.paused = false
	err := c.loop.resume()
	if c.draining {
		c.timer.Reset(c.e.opts.DrainTimeout)
	}
	c.mu.Unlock()
	if err != nil {
		c.Fail(err)
	}
}

// undrained is the end of the time for draining.
func (c *Conn) undrained() {
	c.mu.Lock()
	if c.paused && !c.aborting {
		c.timer.Reset(c.e.opts.DrainTimeout)
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	c.shut(transport.Abort, transport.ErrDrainTimeout)
}

// epollOf is the epoll instance of an event loop, -1 if gnet keeps it elsewhere than
// the version that go.mod names.
func epollOf(loop gnet.EventLoop) int {
	v := reflect.ValueOf(loop)
	for _, name := range []string{"poller", "fd"} {
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		if v.Kind() != reflect.Struct {
			return -1
		}
		v = v.FieldByName(name)
	}
	if v.Kind() != reflect.Int {
		return -1
	}
	return int(v.Int())
}
