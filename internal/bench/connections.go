package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/rds-go/rds/rds"
)

// Limits of a Connections work.
const (
	maxHosts   = 64
	talkLimit  = 60 * time.Second // time for every socket to have heard from every other
	countLimit = 5 * time.Second  // time for connections that were made twice to be down to one
	countLook  = 20 * time.Millisecond
	trimTime   = 3 * time.Second // time in which idle connections give memory back
)

// Fabric is what hosts that all talk to each other take.
type Fabric struct {
	Hosts    int     `json:"hosts"`
	Sockets  int     `json:"sockets"`              // sockets of each host
	PerHost  int     `json:"connections_per_host"` // TCP connections of a host, the same on all hosts
	Total    int     `json:"connections"`
	HeapPair float64 `json:"heap_bytes_per_pair"` // both ends of an idle connection, live heap and stacks
}

// fabricHost is the address of the i-th host.
func fabricHost(i int) netip.Addr { return netip.AddrFrom4([4]byte{127, 99, 0, byte(i + 1)}) }

// fabric is the hosts of one run, each a node on an address of its own, in this process.
type fabric struct {
	w     *Work
	port  uint16 // port of RDS over TCP on all hosts; XRC has the port beside it
	nodes []*rds.Node
	socks []*rds.Socket // host by host
}

func (f *fabric) start(r *Runner) error {
	ips := make([]netip.Addr, f.w.Hosts)
	for i := range ips {
		ips[i] = fabricHost(i)
	}
	var err error
	if f.port, err = freePort(r.Options.Port, ips...); err != nil {
		return err
	}
	for _, ip := range ips {
		h := r.hello(f.port)
		h.Loops = cmp.Or(h.Loops, 1)
		cfg := r.Config
		cfg.Wire = h.Wire
		p, err := openProvider(cfg, ip, rds.ProviderNode, f.port, h)
		if err != nil {
			return err
		}
		f.nodes = append(f.nodes, p.(*rds.Node))
		for range f.w.Sockets {
			s, err := p.Bind(netip.AddrPortFrom(ip, 0))
			if err != nil {
				return err
			}
			f.socks = append(f.socks, s)
		}
	}
	return nil
}

func (f *fabric) close() error {
	errs := make([]error, len(f.nodes))
	var wg sync.WaitGroup
	for i, n := range f.nodes {
		wg.Go(func() { errs[i] = n.Close() })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (f *fabric) run(ctx context.Context) (Result, error) {
	heap, resident := memoryInUse()
	cpu, start := cpuTime(), time.Now()
	if err := f.talk(ctx); err != nil {
		return Result{}, err
	}
	n := uint64(len(f.socks)) * uint64(len(f.socks)-f.w.Sockets)
	res := meter{}.result(time.Since(start), cpuTime()-cpu, snapshot{}, n, f.w.Size)
	perHost, err := f.count()
	if err != nil {
		return Result{}, err
	}
	idle := time.NewTimer(trimTime)
	defer idle.Stop()
	select {
	case <-idle.C:
	case <-ctx.Done():
	}
	idleHeap, idleResident := memoryInUse()
	pairs := f.w.Hosts * (f.w.Hosts - 1) / 2
	each := func(before, after int64) float64 { return float64(max(after-before, 0)) / float64(pairs) }
	res.TCPConns = perHost
	res.Fabric = &Fabric{Hosts: f.w.Hosts, Sockets: f.w.Sockets, PerHost: perHost, Total: pairs * perHost / (f.w.Hosts - 1), HeapPair: each(heap, idleHeap)}
	res.Memory = &Memory{HeapEach: res.Fabric.HeapPair, ResidentEach: each(resident, idleResident)}
	return res, nil
}

// talk has each socket send a message to every socket of the other hosts, and
// receive one from each.
func (f *fabric) talk(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, talkLimit)
	defer cancel()
	errs := make([]error, 2*len(f.socks))
	var wg sync.WaitGroup
	for i := range f.socks {
		wg.Go(func() { errs[2*i] = f.tell(ctx, i) })
		wg.Go(func() { errs[2*i+1] = f.hear(ctx, i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// tell sends the number of the i-th socket to all it is to talk to.
func (f *fabric) tell(ctx context.Context, i int) error {
	data := make([]byte, f.w.Size)
	putNumber(data, uint64(i))
	for k := range f.socks {
		to := f.socks[(i+k)%len(f.socks)] // each socket begins with another destination
		if f.host((i+k)%len(f.socks)) == f.host(i) {
			continue
		}
		if err := f.socks[i].Send(ctx, to.LocalAddrPort(), data); err != nil {
			return err
		}
	}
	return nil
}

func (f *fabric) host(i int) int { return i / f.w.Sockets }

// hear awaits one message of each.
func (f *fabric) hear(ctx context.Context, i int) error {
	heard := make([]bool, len(f.socks))
	for n := len(f.socks) - f.w.Sockets; n > 0; n-- {
		m, err := f.socks[i].Recv(ctx)
		if err != nil {
			return fmt.Errorf("socket %d, with %d messages to come: %w", i, n, err)
		}
		from := numberOf(m.Data)
		ok := len(m.Data) == f.w.Size && from < uint64(len(heard)) && !heard[from] && m.From == f.socks[from].LocalAddrPort()
		m.Release()
		if !ok {
			return fmt.Errorf("socket %d received a message of %d, from %v", i, from, m.From)
		}
		heard[from] = true
	}
	return nil
}

// count tells how many TCP connections each host has, as the kernel sees it. There
// must be one to each other host. Those of another run, on the same addresses, are on
// other ports.
func (f *fabric) count() (int, error) {
	want := f.w.Hosts - 1
	for deadline := time.Now().Add(countLimit); ; {
		conns, err := establishedTCP()
		if err != nil {
			return 0, err
		}
		have := make(map[netip.Addr]int)
		for _, c := range conns {
			if c[0].Port()|1 == f.port|1 || c[1].Port()|1 == f.port|1 {
				have[c[0].Addr()]++
			}
		}
		wrong := ""
		for i := range f.w.Hosts {
			if n := have[fabricHost(i)]; n != want {
				wrong = fmt.Sprintf("%v has %d TCP connections, not %d", fabricHost(i), n, want)
			}
		}
		switch {
		case wrong == "":
			return want, nil
		case time.Now().After(deadline):
			return 0, errors.New(wrong)
		}
		time.Sleep(countLook)
	}
}

// fabricSentence is the comparison of what the same traffic takes otherwise.
func (row *Row) fabricSentence() string {
	f := row.RDS.Fabric
	if f == nil {
		return ""
	}
	n, p := f.Hosts, f.Sockets
	pairs := n * (n - 1) / 2
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d messages, each received once\n", row.Title, row.RDS.Messages)
	fmt.Fprintf(&b, "%-32s  %20s  %16s\n", "one process for each socket", "queue pairs per host", "connections")
	for _, l := range []struct {
		name      string
		qps, both int
	}{
		{"RC", p * p * (n - 1), p * p * pairs},
		{"XRC (initiators and targets)", 2 * p * (n - 1), 2 * p * pairs},
	} {
		fmt.Fprintf(&b, "%-32s  %20d  %16d\n", l.name, l.qps, l.both)
	}
	fmt.Fprintf(&b, "%-32s  %20d  %16d  counted\n", "one RDS for each host", f.PerHost, f.Total)
	fmt.Fprintf(&b, "%.1f KiB of heap for an idle pair of hosts, which is %.1f KiB on each", f.HeapPair/1024, f.HeapPair/2048)
	return b.String()
}
