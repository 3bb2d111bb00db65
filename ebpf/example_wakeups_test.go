package ebpf_test

import (
	"fmt"
	"os"
	"time"

	"github.com/rds-go/rds/ebpf"
)

func ExampleNewWakeups() {
	w, err := ebpf.NewWakeups([]int{os.Getpid()})
	if err != nil {
		fmt.Println(err) // names what is missing
		return
	}
	defer w.Close()
	<-time.After(time.Second)
	r, err := w.Report()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, t := range r.Threads {
		fmt.Println(t.TID, t.Wakeups, t.Latency.Quantile(0.99))
	}
}
