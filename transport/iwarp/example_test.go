package iwarp_test

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
)

// side is a device with a queue pair that completes in one queue.
func side() (*iwarp.Device, *iwarp.PD, *iwarp.CQ, *iwarp.QP, error) {
	dev, err := iwarp.Open(iwarp.Config{})
	if err != nil {
		return nil, nil, nil, nil, err
	}
	pd, err := dev.AllocPD()
	if err != nil {
		return nil, nil, nil, nil, err
	}
	cq, err := dev.CreateCQ(256)
	if err != nil {
		return nil, nil, nil, nil, err
	}
	qp, err := pd.CreateQP(iwarp.QPConfig{SendCQ: cq, RecvCQ: cq})
	return dev, pd, cq, qp, err
}

// next waits for a completion.
func next(ctx context.Context, cq *iwarp.CQ) (c [1]iwarp.Completion, err error) {
	for cq.Poll(c[:]) == 0 {
		if err := cq.Wait(ctx); err != nil {
			return c, err
		}
	}
	return c, nil
}

// A server exposes a block of memory; a client reads it without the server's
// program taking part, and changes it.
func Example() {
	ctx := context.Background()

	// The server.
	serverDevice, serverPD, _, serverQP, err := side()
	if err != nil {
		panic(err)
	}
	defer serverDevice.Close()
	block, err := serverPD.RegMR([]byte("block 17, version 1"), mr.LocalWrite|mr.RemoteRead|mr.RemoteWrite, 0)
	if err != nil {
		panic(err)
	}
	ln, err := serverDevice.Listen(netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil {
		panic(err)
	}
	go func() {
		in, err := ln.Accept(ctx)
		if err == nil {
			_, err = in.Accept(ctx, serverQP, iwarp.ConnParams{})
		}
		if err != nil {
			panic(err)
		}
	}()

	// The client. How it learns key and address is up to the programs: in a
	// message, as a rule.
	dev, pd, cq, qp, err := side()
	if err != nil {
		panic(err)
	}
	defer dev.Close()
	if _, err := dev.Connect(ctx, qp, ln.Addr(), iwarp.ConnParams{}); err != nil {
		panic(err)
	}
	local, err := pd.RegMR(make([]byte, 64), mr.LocalWrite, 0)
	if err != nil {
		panic(err)
	}
	read := iwarp.WorkRequest{ID: 1, Op: iwarp.OpRead, Flags: iwarp.Signaled, SGE: []iwarp.SGE{local.SGE(0, 19)},
		RemoteKey: block.Key(), RemoteAddr: block.Base()}
	// Without the fence the write may reach the block before the read has.
	write := iwarp.WorkRequest{Op: iwarp.OpWrite, Flags: iwarp.Fence, Inline: []byte("2"), RemoteKey: block.Key(), RemoteAddr: block.Base() + 18}
	for range 2 {
		if _, err := qp.PostSend(read, write); err != nil {
			panic(err)
		}
		c, err := next(ctx, cq)
		if err != nil {
			panic(err)
		}
		fmt.Printf("%v: %v: %s\n", c[0].Op, c[0].Status, local.Bytes()[:c[0].Len])
	}

	// Output:
	// read: success: block 17, version 1
	// read: success: block 17, version 2
}
