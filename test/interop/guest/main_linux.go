// Guest is the first and only program of the virtual machine that
// interoperability tests boot: it brings the machine up and then executes the
// commands of package peer, on the kernel's own RDS if the machine has it.
package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/internal/afrds"
	"github.com/rds-go/rds/rds"
	"github.com/rds-go/rds/test/interop/peer"
	"github.com/rds-go/rds/test/interop/rdspeer"
)

func main() {
	if err := run(); err != nil {
		fmt.Println("guest:", err)
	}
	// Process 1 must not return, the kernel would panic.
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

func run() error {
	if err := boot(); err != nil {
		return err
	}
	port, err := openControl()
	if err != nil {
		return err
	}
	defer func() { _ = port.Close() }()
	stack, err := newStack(os.Getenv("guest_stack"))
	if err != nil {
		return err
	}
	fmt.Println("guest: ready", os.Getenv("guest_ip"))
	return peer.Serve(port, stack)
}

// newStack returns the kernel's RDS, through this project's kernel provider or
// with nothing but the system calls in between; or no stack, for a guest that
// only runs programs.
func newStack(name string) (peer.Stack, error) {
	switch name {
	case "none":
		return peer.NoStack{}, nil
	case "provider":
		k, err := rds.OpenKernel()
		return rdspeer.New(k), err
	}
	c, err := afrds.Open()
	return &stack{info: c}, err
}
