package ebpf_test

import (
	"fmt"

	"github.com/rds-go/rds/ebpf"
)

func ExampleProbe() {
	for _, f := range ebpf.Probe() {
		if f.Err != nil {
			fmt.Println(f.Name+":", f.Err) // names the kernel or the capabilities that it takes
		}
	}
}
