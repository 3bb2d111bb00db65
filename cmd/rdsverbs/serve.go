package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rds-go/rds/internal/cli"
	"github.com/rds-go/rds/transport/iwarp"
)

const serveLong = `serve registers regions, prints their keys and addresses, and lets others read
and write them over any number of connections, which come and go without
changing the keys. Output is JSON, one object per line, of these types:

  region      a key, the address of its first byte, its length and rights
  listening   connections are taken now
  connected   a connection, by number
  completion  of a receive request (--recv), which is posted again
  end         of a connection: why, whose Terminate if there was one, events, and how
              many receive requests came back
  hash, deregistered, unknown   answers to commands

Byte i of region n (from 0) is (n + i % 251) % 256 at first. Hashes are FNV-1a of
64 bits. With --commands it reads lines from standard input:

  hash NAME    of the region as it is now
  dereg NAME   end the region; the answer comes when no byte of it is touched any more
  close        disconnect all connections
  quit         end, as a signal does

It ends with a signal, after --duration, or when --count connections have ended.`

// serveOptions are the flags of serve.
type serveOptions struct {
	terms
	regions      regionList
	receive      receiveSpec
	count        cli.Number
	duration     cli.Interval
	commands     bool
	noExtensions bool
}

// receiveSpec is what --recv says: COUNT:LENGTH.
type receiveSpec struct{ count, length int }

func (r *receiveSpec) Set(s string) error {
	count, length, ok := strings.Cut(s, ":")
	n, err := strconv.ParseUint(count, 10, 16)
	if !ok || err != nil {
		return errors.New("want COUNT:LENGTH, at most 65535 of them")
	}
	if r.length, err = parseSize(length); err != nil {
		return err
	}
	if r.count = int(n); int64(n)*int64(r.length) > maxMemory {
		return fmt.Errorf("more than %d bytes", maxMemory)
	}
	return nil
}

func (r *receiveSpec) String() string { return fmt.Sprintf("%d:%d", r.count, r.length) }
func (r *receiveSpec) Type() string   { return "count:length" }

func serveCommand() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use: "serve", Short: "Serve memory regions", Long: serveLong,
		Example: `  rdsverbs serve --region all:1m:rwa --region ro:4096:r
  rdsverbs serve -a 127.0.0.1 -p 0 --region x:64k:rw --recv 16:4096 --count 1`,
		Args: cli.Args(cobra.NoArgs),
		RunE: runner(func(ctx context.Context, _ []string) error { return runServe(ctx, &o, os.Stdin) }),
	}
	f := cmd.Flags()
	o.terms.flags(f, "0.0.0.0", 16, 0)
	f.Lookup("timeout").Hidden = true // nothing is waited for
	f.Var(&o.regions, "region", "a region; may be given many times. Rights are letters: r (read), w (write), a (atomics), o (of a domain that connections are not of), or -")
	f.Var(&o.receive, "recv", "receive requests that each connection keeps posted")
	f.VarP(&o.count, "count", "C", "end after this many connections; 0 means never")
	f.Var(&o.duration, "duration", "end after this time; 0 means never")
	f.BoolVar(&o.commands, "commands", false, "take commands from standard input")
	f.BoolVar(&o.noExtensions, "no-extensions", false, "refuse atomics and immediate data, as a peer that does not know RFC 7306")
	return cmd
}

func runServe(ctx context.Context, o *serveOptions, commands io.Reader) error {
	params, err := o.params()
	if err != nil {
		return err
	}
	at, err := o.listening(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if o.duration > 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(o.duration))
		defer cancel()
	}
	w := newWatcher()
	dev, err := iwarp.Open(iwarp.Config{OnEvent: w.note, NoExtensions: o.noExtensions})
	if err != nil {
		return cli.WithStatus(cli.StatusUsage, err)
	}
	defer dev.Close()
	s, err := newRegionServer(dev, o, params, at, w, &printer{w: os.Stdout, json: true})
	if err != nil {
		return cli.WithStatus(cli.StatusUsage, err)
	}
	defer s.close()
	if o.commands {
		// It waits for input until the process ends.
		go s.command(ctx, commands, cancel)
	}
	return s.run(ctx, int(o.count))
}
