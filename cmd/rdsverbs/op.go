package main

import (
	"context"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/rds-go/rds/internal/cli"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/transport/iwarp/mpa"
)

const opLong = `op connects to a server of regions (rdsverbs serve, or any verbs program), does
the operations one after the other, and disconnects. An operation is its name and
parameters:

  write, read       :key=K,addr=A,len=N     N bytes of the region K at address A
  send              :len=N
  send-invalidate   :key=K,len=N            and the peer's key K is dead then
  fetch-add         :key=K,addr=A,add=V     add-mask=M, see RFC 7306
  compare-swap      :key=K,addr=A,compare=V,swap=W   compare-mask=M, swap-mask=M
  immediate         :value=V                8 bytes as a message
  wait                                      for the peer to end the connection

All take count=N (that many, up to 64 outstanding, before the next operation),
fence and solicited. Numbers are decimal, or 0x. With mem=N the local memory is N
bytes long instead of what len says. Byte i of what is sent is (200 + i % 251) % 256.

Output is JSON, one object per line, of these types:

  connected   the terms of the connection
  completion  of an operation, by index; those alike in a row are one line with a count
  refused     the local side does not take the operation
  end         of the connection: why, whose Terminate if there was one, events

A write or send is complete when TCP has it, so what the peer thinks of it is in
the end. Nothing keeps op from operations that the peer must refuse; but what is
known to bring down the kernel of a peer with Linux's siw, a peer-to-peer set-up
(RFC 6581) that is cut off at the wrong moment, is only done with --not-siw.

Exit status: 0 if every operation succeeded and the connection ended in order, 1
if not, 2 if it could not begin.`

// opOptions are the flags of op.
type opOptions struct {
	terms
	peerToPeer bool
	rtr        rtrKind
	notSIW     bool
	private    string
}

// rtrKind is a pflag.Value.
type rtrKind mpa.RTR

func (k *rtrKind) Set(s string) error {
	for _, kind := range []mpa.RTR{mpa.RTRSend, mpa.RTRWrite, mpa.RTRRead} {
		if kind.String() == s {
			*k = rtrKind(kind)
			return nil
		}
	}
	return errRTR
}

func (k *rtrKind) String() string {
	if *k == 0 {
		return ""
	}
	return mpa.RTR(*k).String()
}

func (k *rtrKind) Type() string { return "send|write|read" }

func opCommand() *cobra.Command {
	var o opOptions
	cmd := &cobra.Command{
		Use: "op -a ADDRESS [flags] OPERATION...", Short: "Do single operations against a region", Long: opLong,
		Example: `  rdsverbs op -a 10.0.0.2 write:key=0x1a2b300,addr=0x100000000,len=64 read:key=0x1a2b300,addr=0x100000000,len=64
  rdsverbs op -a 10.0.0.2 read:key=0xbad,addr=0,len=16
  rdsverbs op -a 10.0.0.2 write:key=0x1a2b300,addr=0x100000000,len=64,count=1000 wait`,
		RunE: runner(func(ctx context.Context, args []string) error { return runOp(ctx, &o, args) }),
	}
	f := cmd.Flags()
	o.terms.flags(f, "", 16, 10*time.Second)
	f.BoolVar(&o.peerToPeer, "peer-to-peer", false, "set up so that the server may send first; only with --not-siw")
	f.Var(&o.rtr, "rtr", "the first message then (default: read, write or send)")
	f.BoolVar(&o.notSIW, "not-siw", false, "the peer is not Linux's siw, or its kernel may crash")
	f.StringVar(&o.private, "private", "", "private data of the connection request, up to 252 bytes")
	return cmd
}

func runOp(ctx context.Context, o *opOptions, args []string) error {
	params, err := o.connParams()
	if err != nil {
		return err
	}
	var list []operation
	for _, arg := range args {
		op, err := parseOperation(arg)
		if err != nil {
			return cli.Usage(err)
		}
		list = append(list, op)
	}
	to, err := o.server(ctx)
	if err != nil {
		return err
	}
	w := newWatcher()
	dev, err := iwarp.Open(iwarp.Config{EventLoops: 1, OnEvent: w.note})
	if err != nil {
		return cli.WithStatus(cli.StatusUsage, err)
	}
	defer dev.Close()
	e, err := newExecutor(dev, &o.terms, w, &printer{w: os.Stdout, json: true})
	if err != nil {
		return cli.WithStatus(cli.StatusUsage, err)
	}
	defer e.close()
	ok, err := e.run(ctx, to, params, list)
	if err == nil && !ok {
		return cli.Exit(cli.StatusFailed) // the lines tell
	}
	return err
}

// connParams are the terms, unless they may harm the peer.
func (o *opOptions) connParams() (iwarp.ConnParams, error) {
	p, err := o.params()
	switch {
	case err != nil:
		return p, err
	case o.peerToPeer && !o.notSIW:
		return p, cli.Usagef("--peer-to-peer may crash a peer with Linux's siw; say --not-siw if it is none")
	case o.rtr != 0 && !o.peerToPeer:
		return p, cli.Usagef("--rtr without --peer-to-peer")
	}
	p.PeerToPeer, p.RTR, p.Private = o.peerToPeer, mpa.RTR(o.rtr), []byte(o.private)
	return p, nil
}
