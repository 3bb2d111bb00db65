//go:build !linux

// Guest runs in a virtual machine with Linux only.
package main

import "log"

func main() { log.Fatal("guest: only on Linux") }
