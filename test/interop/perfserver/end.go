package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
)

// end is a queue pair with receives for messages of one size, and the queue of
// their completions. One goroutine uses it.
type end struct {
	cq   *iwarp.CQ
	qp   *iwarp.QP
	in   *iwarp.MR // one piece for each receive
	size int
}

func newEnd(dev *iwarp.Device, pd *iwarp.PD, depth, size int) (end, error) {
	cq, err := dev.CreateCQ(2 * depth)
	if err != nil {
		return end{}, err
	}
	qp, err := pd.CreateQP(iwarp.QPConfig{SendCQ: cq, RecvCQ: cq, MaxReceive: depth})
	if err != nil {
		return end{}, err
	}
	in, err := pd.RegMR(make([]byte, depth*size), mr.LocalWrite, 0)
	if err != nil {
		return end{}, err
	}
	e := end{cq: cq, qp: qp, in: in, size: size}
	for i := range depth {
		if err := e.post(i); err != nil {
			return end{}, err
		}
	}
	return e, nil
}

// post makes one piece available for a message.
func (e *end) post(i int) error {
	_, err := e.qp.PostReceive(iwarp.ReceiveRequest{ID: uint64(i), SGE: []iwarp.SGE{e.in.SGE(i*e.size, e.size)}})
	return err
}

// receive waits for a message and returns its place. It is the caller's until
// the place is posted again.
func (e *end) receive(ctx context.Context) (i int, message []byte, err error) {
	var c [1]iwarp.Completion
	for e.cq.Poll(c[:]) == 0 {
		if err := e.cq.Wait(ctx); err != nil {
			return 0, nil, err
		}
	}
	if c[0].Status != iwarp.Success {
		return 0, nil, fmt.Errorf("%v: %w", c[0].Status, e.qp.Err())
	}
	i = int(c[0].ID)
	return i, e.in.Bytes()[i*e.size:][:c[0].Len], nil
}

// over tells whether an error is the end that a client makes.
func over(err error) bool {
	return errors.Is(err, iwarp.ErrPeerClosed) || errors.Is(err, context.Canceled)
}
