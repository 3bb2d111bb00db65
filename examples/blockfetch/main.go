package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/signal"
	"time"

	"github.com/rds-go/rds/rds"
)

func main() {
	log.SetFlags(0)
	listen := flag.String("listen", "", "serve on this `HOST:PORT`")
	connect := flag.String("connect", "", "fetch from the server at this `HOST:PORT`")
	from := flag.String("from", "127.0.0.1", "address of the client")
	provider := flag.String("provider", "", "node or rdsd (default: this host's rdsd, else node)")
	port := flag.Uint("port", rds.DefaultPort, "TCP port of RDS (node)")
	blocks := flag.Int("blocks", 100_000, "blocks to fetch")
	outstanding := flag.Int("outstanding", 32, "requests under way at a time, 1 to 1024")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	// Blocks are read and written by operations, which TCP does not have.
	p, err := rds.Open(*provider, rds.Config{Port: uint16(*port), Wire: rds.WireXRC})
	if err != nil {
		log.Fatal(err)
	}
	switch {
	case *listen != "" && *connect == "":
		err = listenAndServe(ctx, p, *listen, os.Stdout)
	case *connect != "" && *listen == "":
		err = connectAndFetch(ctx, p, *from, *connect, *blocks, *outstanding)
	default:
		err = fmt.Errorf("usage: blockfetch --listen HOST:PORT, or --connect HOST:PORT; see --help")
	}
	_ = p.Close()
	if err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

func listenAndServe(ctx context.Context, p rds.Provider, address string, out io.Writer) error {
	addr, err := rds.ResolveAddr(ctx, address)
	if err != nil {
		return err
	}
	s, err := p.Bind(addr)
	if err != nil {
		return err
	}
	defer s.Close()
	fmt.Fprintf(out, "serving %d blocks of %d bytes on %v\n", storeBlocks, blockSize, s.LocalAddrPort())
	return serve(ctx, s)
}

func connectAndFetch(ctx context.Context, p rds.Provider, from, server string, blocks, outstanding int) error {
	local, err := rds.ResolveAddr(ctx, net.JoinHostPort(from, "0"))
	if err != nil {
		return err
	}
	to, err := rds.ResolveAddr(ctx, server)
	if err != nil {
		return err
	}
	if blocks < 1 || outstanding < 1 || outstanding > 1024 {
		return fmt.Errorf("--blocks is above 0, --outstanding 1 to 1024")
	}
	s, err := p.Bind(local)
	if err != nil {
		return err
	}
	defer s.Close()
	start := time.Now()
	if err := fetch(ctx, s, to, blocks, min(outstanding, blocks)); err != nil {
		return err
	}
	took := time.Since(start).Seconds()
	rate := float64(blocks) / took
	fmt.Printf("%d blocks in %.2f s: %.0fk blocks/s, %.0f MB/s, all verified\n", blocks, took, rate/1e3, rate*blockSize/1e6)
	return nil
}
