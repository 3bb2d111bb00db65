package mr_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"github.com/rds-go/rds/mr"
)

// A peer writes into memory that an application has mapped, until the
// application wants it back.
func Example() {
	dev, err := mr.New(mr.Config{Seed: 1})
	if err != nil {
		panic(err)
	}
	defer dev.Close()
	domain := dev.NewDomain()
	app := dev.NewOwner(mr.OwnerConfig{Name: "app"})

	mem := []byte("................")
	key, err := app.Map(mem, mr.Options{
		Domain: domain,
		Rights: mr.LocalWrite | mr.RemoteWrite,
		Base:   0x1000,
	})
	if err != nil {
		panic(err)
	}

	// An event loop that has received a write of the peer.
	loop := dev.NewReader("loop 1", nil)
	defer loop.Close()
	place := func(addr uint64, data string) {
		loop.Enter()
		defer loop.Leave()
		dst, fault := loop.Check(&mr.Request{
			Key: key, Domain: domain, From: netip.MustParseAddr("192.0.2.7"),
			Rights: mr.RemoteWrite, Addr: addr, Len: uint64(len(data)),
		})
		copy(dst, data)
		fmt.Printf("write to %#x: %v\n", addr, fault.Err())
	}
	place(0x1000, "hello")
	place(0x100c, "world")

	if err := app.FreeInvalidate(context.Background(), key); err != nil {
		panic(err)
	}
	place(0x1000, "HELLO")
	fmt.Printf("%s\n", mem)
	// Output:
	// write to 0x1000: <nil>
	// write to 0x100c: mr: out of bounds
	// write to 0x1000: mr: key was revoked
	// hello...........
}

// Lazy frees cost next to nothing; one barrier makes all of them final.
func ExampleOwner_Barrier() {
	dev, _ := mr.New(mr.Config{Seed: 1})
	defer dev.Close()
	domain := dev.NewDomain()
	app := dev.NewOwner(mr.OwnerConfig{})
	returned := 0
	for range 1000 {
		key, err := app.Map(make([]byte, 512), mr.Options{
			Domain:   domain,
			Rights:   mr.RemoteRead,
			Released: func() { returned++ },
		})
		if err != nil {
			panic(err)
		}
		if err := app.Free(key); err != nil {
			panic(err)
		}
	}
	if err := app.Barrier(context.Background()); err != nil {
		panic(err)
	}
	s := dev.Stats()
	fmt.Println(returned, "regions returned by", s.Batches, "grace period")
	// Output:
	// 1000 regions returned by 1 grace period
}

// Of the operations that reach a use-once region one succeeds.
func ExampleDevice_Finish() {
	dev, _ := mr.New(mr.Config{Seed: 1})
	defer dev.Close()
	domain := dev.NewDomain()
	app := dev.NewOwner(mr.OwnerConfig{})
	key, _ := app.Map(make([]byte, 64), mr.Options{Domain: domain, Rights: mr.RemoteRead, Once: true})

	r := dev.NewReader("loop", nil)
	defer r.Close()
	var uses [2]mr.Use
	read := func(operation int) {
		r.Enter()
		_, fault := r.Check(&mr.Request{
			Key: key, Domain: domain, From: netip.MustParseAddr("192.0.2.7"),
			Rights: mr.RemoteRead, Len: 64, Use: &uses[operation],
		})
		r.Leave()
		fmt.Printf("operation %d: %v\n", operation, fault.Err())
	}
	read(0)
	read(1)
	dev.Finish(&uses[0], false) // operation 0 failed after all
	read(1)
	dev.Finish(&uses[1], true)
	read(0)
	// Output:
	// operation 0: <nil>
	// operation 1: mr: region was used once
	// operation 1: <nil>
	// operation 0: mr: key was revoked
}

// The errors are errnos, too.
func ExampleOwner_Free() {
	dev, _ := mr.New(mr.Config{Seed: 1})
	defer dev.Close()
	app := dev.NewOwner(mr.OwnerConfig{})
	err := app.Free(0x12345678)
	fmt.Println(err)
	fmt.Println(errors.Is(err, mr.ErrKey), errors.Is(err, syscall.EINVAL))
	// Output:
	// mr: key names no region of this owner
	// true true
}
