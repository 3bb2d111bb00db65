package ebpf_test

import (
	"errors"
	"fmt"
	"log"
	"net/netip"
	"os"

	"github.com/rds-go/rds/ebpf"
)

// A privileged program pins a filter for a user, who changes its list later.
func ExampleLoadAdmission() {
	a, err := ebpf.LoadAdmission(ebpf.AdmissionOptions{
		Dir:   "/sys/fs/bpf/rds",
		Deny:  ebpf.Silent,
		Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")},
	})
	switch {
	case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, ebpf.ErrPermission):
		log.Printf("no filter in the kernel: %v", err) // the daemon's own list does the same, slower
		return
	case err != nil:
		log.Fatal(err)
	}
	defer a.Close() // the filter stays: it is pinned
	status, err := a.Status()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(status.Hooks, status.Prefixes)
}

// A daemon without capabilities changes the list of the filter, where there is one.
func ExampleOpenAdmission() {
	a, err := ebpf.OpenAdmission("/sys/fs/bpf/rds")
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close()
	if err := a.Set([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("fd00::/64")}); err != nil {
		log.Fatal(err)
	}
	strangers, err := a.Counters()
	if err != nil {
		log.Fatal(err)
	}
	for address, c := range strangers {
		fmt.Println(address, c.Refused, c.Last)
	}
}
