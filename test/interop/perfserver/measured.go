package main

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/rds-go/rds/transport/iwarp"
)

// measured is the server's part in what is measured: nothing for writes and
// reads, whose region is there; messages are received, and credited or answered.
// It returns when the client is gone.
func measured(ctx context.Context, dev *iwarp.Device, pd *iwarp.PD, ln *iwarp.Listener, talk *control, o options) error {
	e, err := newEnd(dev, pd, o.depth, o.size)
	if err != nil {
		return err
	}
	if err := accept(ctx, ln, &e, o); err != nil {
		return err
	}
	received := 0
	defer func() { fmt.Println("received", received) }()
	for {
		i, message, err := e.receive(ctx)
		if err != nil {
			if over(err) {
				err = nil
			}
			return err
		}
		received++
		if o.echo {
			_, err = e.qp.PostSend(iwarp.WorkRequest{Op: iwarp.OpSend, Inline: message})
		}
		if err == nil {
			err = e.post(i)
		}
		// A client counts how many of its messages were received, in its own
		// byte order, and stays that many receives ahead (ctx_set_credit_wqes).
		if err == nil && o.credits && received%o.depth%(o.depth/3) == 0 {
			key, addr := talk.memory()
			_, err = e.qp.PostSend(iwarp.WorkRequest{
				Op: iwarp.OpWrite, Inline: binary.LittleEndian.AppendUint32(nil, uint32(received)),
				RemoteKey: key, RemoteAddr: addr,
			})
		}
		if err != nil {
			return err
		}
	}
}
