package peer

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// maxLine bounds one line of JSON.
const maxLine = 1 << 20

// ErrGone is the failure of commands whose other end went away.
var ErrGone = errors.New("peer: the other end is gone")

// Client gives commands to a Server.
type Client struct {
	conn io.ReadWriteCloser
	done chan struct{} // closed when nothing more will be read

	mu    sync.Mutex // guards the fields below and writing to conn
	next  uint64
	calls map[uint64]*Call
	gone  bool
}

// NewClient starts a client on conn and takes it over.
func NewClient(conn io.ReadWriteCloser) *Client {
	c := &Client{conn: conn, done: make(chan struct{}), calls: make(map[uint64]*Call)}
	go c.read()
	return c
}

// Close ends the connection and all commands and waits for the reader.
func (c *Client) Close() error {
	err := c.conn.Close()
	<-c.done
	return err
}

// Done is closed when the other end is gone.
func (c *Client) Done() <-chan struct{} { return c.done }

// Call is a command under way.
type Call struct {
	client   *Client
	id       uint64
	op       string
	response chan response // one, or closed
}

// Start gives a command and does not wait for its end.
func (c *Client) Start(op string, args any) (*Call, error) {
	raw, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return nil, ErrGone
	}
	c.next++
	call := &Call{client: c, id: c.next, op: op, response: make(chan response, 1)}
	line, err := json.Marshal(request{ID: call.id, Op: op, Args: raw})
	if err != nil {
		return nil, err
	}
	if _, err := c.conn.Write(append(line, '\n')); err != nil {
		return nil, fmt.Errorf("%s: %w", op, errors.Join(ErrGone, err))
	}
	c.calls[call.id] = call
	return call, nil
}

// Call gives a command and waits for its result.
func (c *Client) Call(ctx context.Context, op string, args, result any) error {
	call, err := c.Start(op, args)
	if err != nil {
		return err
	}
	return call.Wait(ctx, result)
}

// Wait waits for the command's end and decodes its result, unless that is nil.
// When ctx ends first the command is cancelled.
func (c *Call) Wait(ctx context.Context, result any) error {
	select {
	case r, ok := <-c.response:
		switch {
		case !ok:
			return fmt.Errorf("%s: %w", c.op, ErrGone)
		case r.Error != nil:
			return fmt.Errorf("%s: %w", c.op, r.Error)
		case result == nil:
			return nil
		}
		return json.Unmarshal(r.Result, result)
	case <-ctx.Done():
		_, _ = c.client.Start(OpCancel, CallArgs{c.id})
		return fmt.Errorf("%s: %w", c.op, context.Cause(ctx))
	}
}

// Progress asks how far the command is.
func (c *Call) Progress(ctx context.Context) (p ProgressResult, err error) {
	err = c.client.Call(ctx, OpProgress, CallArgs{c.id}, &p)
	return p, err
}

// Output asks a running program what it printed after the first from bytes, and
// waits for there to be something.
func (c *Call) Output(ctx context.Context, from int) (r OutputResult, err error) {
	err = c.client.Call(ctx, OpOutput, OutputArgs{c.id, from}, &r)
	return r, err
}

// Input gives a running program input.
func (c *Call) Input(ctx context.Context, text string) error {
	return c.client.Call(ctx, OpInput, InputArgs{c.id, text}, nil)
}

// Cancel ends the command early; Wait then returns its error.
func (c *Call) Cancel(ctx context.Context) error {
	return c.client.Call(ctx, OpCancel, CallArgs{c.id}, nil)
}

func (c *Client) read() {
	defer close(c.done)
	in := bufio.NewScanner(c.conn)
	in.Buffer(nil, maxLine)
	for in.Scan() {
		var r response
		if json.Unmarshal(in.Bytes(), &r) != nil {
			break
		}
		c.mu.Lock()
		call := c.calls[r.ID]
		delete(c.calls, r.ID)
		c.mu.Unlock()
		if call != nil {
			call.response <- r
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	for id, call := range c.calls {
		close(call.response)
		delete(c.calls, id)
	}
}
