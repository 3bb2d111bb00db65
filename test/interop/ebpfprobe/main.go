// Ebpfprobe runs in a guest and prints what its kernel has for package ebpf: a line for each
// feature, as ebpf.Probe reports them. With the argument "connections" it prints the TCP
// connections with RDS's ports that the kernel has, its own ones too.
package main

import (
	"fmt"
	"os"

	"github.com/rds-go/rds/ebpf"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "connections" {
		if err := connections(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	for _, s := range ebpf.Probe() {
		fmt.Println(s)
	}
}

// connections prints one connection a line: its ends, its state, and whether a program owns it.
func connections() error {
	t, err := ebpf.LoadTelemetry(ebpf.TelemetryOptions{})
	if err != nil {
		return err
	}
	defer t.Close()
	list, err := t.Snapshot()
	for _, c := range list {
		fmt.Printf("%v %v %s inode %d\n", c.Local, c.Remote, c.State, c.Inode)
	}
	return err
}
