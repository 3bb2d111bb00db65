package ebpf_test

import (
	"errors"
	"fmt"
	"log"
	"net/netip"
	"time"

	"github.com/rds-go/rds/ebpf"
)

// A test drops packets to and from a peer, and goes on when some have been lost.
func ExampleNewFault() {
	f, err := ebpf.NewFault(ebpf.FaultOptions{Interface: "eth0"})
	switch {
	case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, ebpf.ErrPermission):
		log.Printf("no faults: %v", err) // a test skips
		return
	case err != nil:
		log.Fatal(err)
	}
	defer f.Close() // nothing stays behind, also if the process is killed
	peer := ebpf.FaultMatch{Remote: netip.AddrPortFrom(netip.MustParseAddr("10.0.0.2"), 0)}
	drop, err := f.Drop(peer, ebpf.FaultLimits{Rate: 0.01, Count: 100, For: 30 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	for tick := time.Tick(10 * time.Millisecond); !drop.Ended(); <-tick {
	}
	counts, err := drop.Stop()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d of %d packets were dropped\n", counts.Hit, counts.Seen)
	n, err := f.Abort(peer, 1) // takes no program in the kernel
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d connection was aborted\n", n)
}
