package main

import (
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/rds"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc"
)

const (
	receives = 8
	size     = 64 // octets of a receive
)

// work is a worker. It prints what comes to its queue, until the client ends.
func work(socket, index string) {
	s := must(must(rds.Dial(socket)).XRC(ctx))
	pd, cq := must(s.AllocPD()), must(s.CreateCQ(receives))
	dom := must(s.OpenDomain(os.NewFile(3, "domain"), os.O_CREATE))
	srq := must(s.CreateSRQ(xrc.SRQAttr{Domain: dom, PD: pd, CQ: cq, MaxWR: receives}))
	mem := must(pd.Alloc(receives*size, mr.LocalWrite))
	post := func(slot uint64) {
		must(srq.PostReceive(iwarp.ReceiveRequest{ID: slot, SGE: []iwarp.SGE{mem.SGE(int(slot)*size, size)}}))
	}
	for i := range uint64(receives) {
		post(i)
	}
	must(s.Advertise(xrc.ServiceAttr{ID: service + must(strconv.ParseUint(index, 10, 8)), Domain: dom, SRQ: srq}))
	fmt.Println("ready")
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	for {
		c := next(cq)
		fmt.Printf("%s\n", mem.Bytes()[c.ID*size:][:c.Len])
		post(c.ID)
	}
}
