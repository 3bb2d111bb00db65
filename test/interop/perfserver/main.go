// Perfserver is a server for the clients of Debian's package perftest with -R,
// on our iWARP, as far as they need of a server only what verbs do by
// themselves:
//
//	ib_write_bw, ib_read_bw, ib_read_lat   a region that the client writes or reads
//	ib_send_bw                             receives, and credits that are written back
//	ib_send_lat                            with -echo: each message is answered
//
// It serves one client and ends. Not served are ib_write_lat, whose server waits
// for octets that change in its memory with no completion to tell it, which
// Go's memory model does not have; and ib_atomic_bw and ib_atomic_lat, whose
// clients find no atomics in siw.
//
// A client has two connections, one after the other. On the first both say who
// they are in messages (see control); the second is measured.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/netip"
	"os"
	"os/signal"
	"sync"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
)

// maxReads is how many reads a client may have outstanding.
const maxReads = 128

type options struct {
	addr    netip.AddrPort
	size    int  // octets of a message, or of what is written or read
	depth   int  // receives, as -r of perftest
	echo    bool // answer messages
	crc     bool
	credits bool
}

func main() {
	var o options
	addr := flag.String("addr", "", "address and port to listen on")
	flag.IntVar(&o.size, "s", 65536, "size, as the client's -s")
	flag.IntVar(&o.depth, "r", 512, "receives, as the client's -r")
	flag.BoolVar(&o.echo, "echo", false, "answer each message: for ib_send_lat")
	flag.BoolVar(&o.credits, "credits", false, "say how many messages have come: for ib_send_bw")
	flag.BoolVar(&o.crc, "crc", true, "ask for CRCs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if o.addr, err = netip.ParseAddrPort(*addr); err == nil {
		err = run(ctx, o)
	}
	if err != nil {
		log.Fatal("perfserver: ", err)
	}
}

// run serves one client.
func run(ctx context.Context, o options) (err error) {
	dev, err := iwarp.Open(iwarp.Config{EventLoops: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	pd, err := dev.AllocPD()
	if err != nil {
		return err
	}
	// perftest has two halves of at least a page: what goes out and what comes.
	target, err := pd.RegMR(make([]byte, 2*max(o.size, 4096)), mr.LocalWrite|mr.RemoteRead|mr.RemoteWrite, 1<<32)
	if err != nil {
		return err
	}
	ln, err := dev.Listen(o.addr)
	if err != nil {
		return err
	}
	fmt.Println("listening on", ln.Addr())
	talk, err := newControl(dev, pd, target)
	if err != nil {
		return err
	}
	if err := accept(ctx, ln, &talk.end, o); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	var talkErr error
	wg.Go(func() {
		defer cancel() // the client is done, or there is none
		talkErr = talk.run(ctx)
	})
	testErr := measured(ctx, dev, pd, ln, talk, o)
	wg.Wait()
	fmt.Println("messages", talk.answered)
	return errors.Join(talkErr, testErr)
}

// accept waits for a connection for an end.
func accept(ctx context.Context, ln *iwarp.Listener, e *end, o options) error {
	in, err := ln.Accept(ctx)
	if err != nil {
		return err
	}
	est, err := in.Accept(ctx, e.qp, iwarp.ConnParams{IRD: maxReads, ORD: maxReads, NoCRC: !o.crc})
	if err != nil {
		return err
	}
	fmt.Printf("connected %v, CRC %v\n", est.Remote, est.CRC)
	return nil
}
