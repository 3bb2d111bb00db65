package bench

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/rds-go/rds/rds"
)

// daemons are an rdsd for each side, processes that this one has started.
type daemons struct {
	dir  string // directory of the daemons' sockets
	port uint16
	side children
}

// startDaemons starts one for each side, with the options of the run.
func (r *Runner) startDaemons() (*daemons, error) {
	dir, err := os.MkdirTemp("", "rdsbench")
	if err != nil {
		return nil, err
	}
	d := &daemons{dir: dir}
	d.port, err = freePort(r.Options.Port, r.ip(clientSide), r.ip(serverSide))
	for s := clientSide; s <= serverSide && err == nil; s++ {
		var c *child
		if c, err = r.startDaemon(d, s); err == nil {
			d.side = append(d.side, c)
		}
	}
	if err != nil {
		return nil, errors.Join(err, d.end())
	}
	return d, nil
}

// startDaemon starts that of a side.
func (r *Runner) startDaemon(d *daemons, s side) (*child, error) {
	c, err := r.start([]string{"rdsd of the client", "rdsd of the server"}[s], s)
	if err != nil {
		return nil, err
	}
	h := r.hello(d.port)
	h.Socket = d.socket(s)
	if r.Options.Restarts > 0 { // as rdsd has: a new daemon waits for the ports of the one before
		h.State = h.Socket + ".state"
	}
	if _, err := c.call(request{Op: opServe, Hello: h}); err != nil {
		return nil, errors.Join(err, c.end())
	}
	return c, nil
}

// socket is where applications of a side attach.
func (d *daemons) socket(s side) string { return filepath.Join(d.dir, []string{"client", "server"}[s]) }

// cpu is the CPU time of a side's daemon so far. That of none is 0, and so is
// that of one that has ended, of which the run hears otherwise.
func (d *daemons) cpu(s side) time.Duration {
	if d == nil {
		return 0
	}
	r, _ := d.side[s].call(request{Op: opSnap})
	return r.Snap.CPU
}

// watch has failed called when a daemon fails. It does nothing to none.
func (d *daemons) watch(failed func(error)) {
	if d == nil {
		return
	}
	for _, c := range d.side {
		c.watch(failed)
	}
}

func (d *daemons) end() error { return errors.Join(d.side.end(), os.RemoveAll(d.dir)) }

// rdsd is what a process runs as a daemon.
type rdsd struct {
	node    *rds.Node
	service *rds.Service
}

func startRDSD(cfg rds.Config, ip netip.Addr, h *hello) (*rdsd, error) {
	cfg.Wire, cfg.TCP.Burst, cfg.State, cfg.Serves = h.Wire, rds.ServiceBurst, h.State, true
	p, err := openProvider(cfg, ip, rds.ProviderNode, h.Port, h)
	if err != nil {
		return nil, err
	}
	n := p.(*rds.Node)
	s, err := rds.NewService(n, rds.ServiceConfig{Path: h.Socket, Mode: 0o600})
	if err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return &rdsd{n, s}, nil
}

func (d *rdsd) close() error {
	if d == nil {
		return nil
	}
	return errors.Join(d.service.Close(), d.node.Close())
}
