package ebpf_test

import (
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/rds-go/rds/ebpf"
)

// What rdsbpf has loaded is read without a capability; where it has not, root may load it for
// the time of a program.
func ExampleLoadTelemetry() {
	t, err := ebpf.OpenTelemetry(ebpf.DefaultDir)
	if errors.Is(err, os.ErrNotExist) {
		t, err = ebpf.LoadTelemetry(ebpf.TelemetryOptions{})
	}
	switch {
	case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, ebpf.ErrPermission):
		log.Println("without the kernel's help:", err)
		return
	case err != nil:
		log.Fatal(err)
	}
	defer t.Close()
	connections, err := t.Snapshot()
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range connections {
		fmt.Printf("%v to %v: half of %d round trips took %v or less, data waited %v\n",
			c.Local, c.Remote, c.RTTs.Count, c.RTTs.Quantile(0.5), c.Waits.Quantile(0.5))
	}
}
