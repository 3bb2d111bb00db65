package rds_test

import (
	"context"
	"fmt"
	"log"

	"github.com/rds-go/rds/rds"
)

// A server exposes memory and says so; the client writes there, and the message
// behind says that it is done. Both hosts run this package: RDMA needs XRC.
func ExampleSocket_GetMR() {
	client, server, end := hosts()
	defer end()
	ctx := context.Background()

	mem := make([]byte, 64<<10)
	cookie, err := server.GetMR(mem, rds.MRReadWrite)
	if err != nil {
		log.Fatal(err)
	}
	offer := rds.Outgoing{To: client.LocalAddrPort(), Data: []byte("write here"), HasDest: true, Dest: cookie}
	if err := server.SendMessage(ctx, &offer); err != nil {
		log.Fatal(err)
	}

	m, err := client.Recv(ctx)
	if err != nil {
		log.Fatal(err)
	}
	write := rds.RDMA{Cookie: m.Dest, Offset: 100, Local: [][]byte{[]byte("straight "), []byte("to its place")}, Write: true}
	o := rds.Outgoing{To: m.From, Data: []byte("done"), RDMA: &write, Notify: true, Token: 1}
	m.Release()
	if err := client.SendMessage(ctx, &o); err != nil {
		log.Fatal(err)
	}

	if m, err = server.Recv(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %s\n", m.Data, mem[100:121])
	m.Release()
	if m, err = client.Recv(ctx); err != nil { // the write's Local is ours again
		log.Fatal(err)
	}
	fmt.Println(m.Status == rds.StatusSuccess)

	// From here on the memory is the server's alone.
	if err := server.FreeMR(cookie, rds.MRInvalidate); err != nil {
		log.Fatal(err)
	}
	// Output:
	// done: straight to its place
	// true
}

// Peers draw numbers from a word of the server's memory.
func ExampleAtomic() {
	client, server, end := hosts()
	defer end()
	ctx := context.Background()

	word, err := server.AllocMemory(8)
	if err != nil {
		log.Fatal(err)
	}
	cookie, err := server.GetMR(word.B, 0) // known to the client from a message, say
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		var number uint64
		o := rds.Outgoing{
			To:     server.LocalAddrPort(),
			Atomic: &rds.Atomic{Cookie: cookie, Kind: rds.FetchAdd, Add: 1, Result: &number, Silent: true},
			Notify: true,
		}
		if err := client.SendMessage(ctx, &o); err != nil {
			log.Fatal(err)
		}
		if _, err := client.Recv(ctx); err != nil {
			log.Fatal(err)
		}
		fmt.Println(number)
	}
	// Output:
	// 0
	// 1
	// 2
}
