// Package interop tests this project against a real Linux kernel: its RDS and
// its software iWARP.
//
//	go test -tags interop ./test/interop/ -v -timeout 20m
//
// The tests boot Debian's kernel in a virtual machine with QEMU's software
// emulation, make a network namespace with a bridge, and run our node in that
// namespace as a process of its own:
//
//	      test process (go test)
//	       │ pipe              │ virtio port: one JSON command a line
//	┌──────┼───────────────────┼──────────────────────────┐
//	│  ┌───┴────┐          ┌───┴──────────────────────┐   │
//	│  │  node  │          │ QEMU: Linux, rds_tcp     │   │
//	│  │  rds   │          │ guest program on AF_RDS  │   │
//	│  └───┬────┘          └───┬──────────────────────┘   │
//	│    br0 ──────────────── tap1       network namespace│
//	└─────────────────────────────────────────────────────┘
//
// In two variants the node program is attached to a real rdsd in the namespace,
// and what ends and starts again is the daemon. The conformance suite of
// internal/conformance runs in the guest, on the kernel's sockets.
//
// Both programs execute the commands of package peer, and every case is written
// over two peers, whichever they are; TestKernelToKernel runs cases between
// two guests, to tell the harness's faults from ours, with
// RDS_INTEROP_KERNELS=1.
//
// TestLasting has what takes minutes in a short form. RDS_LONG=1 has it in full:
//
//	RDS_LONG=1 go test -tags interop ./test/interop/ -run TestLasting -v -timeout 40m -parallel 4
//
// # Kernels
//
// All tests run on the kernel in /boot of the oldest version, which is Linux 6.1
// on Debian 12. TestOtherKernels runs the cases of TestInterop, of the kernel
// provider and of eBPF on each other version in /boot, such as Linux 6.12 of
// Debian 12's package linux-image-6.12-amd64, and skips where there is none. Two
// kernels share the settings of TestInterop (whose address is the smaller, how
// many paths, a node or an rdsd); RDS_LONG=1 has all of them on each.
// RDS_INTEROP_KERNEL names the image of the only kernel to test:
//
//	RDS_INTEROP_KERNEL=/boot/vmlinuz-6.12.117+deb12-amd64 go test -tags interop ./test/interop/ -run TestInterop -v
//
// # Verbs
//
// Other guests have Linux's software iWARP, siw, to test ours against. Debian's
// kernels come without it, so it is built from Debian's kernel source, once, and
// kept under the user's cache directory. These guests have Debian's rping and
// perftest, and a program of our own, verbs/verbs.c, that does single operations,
// wrong ones too, and serves memory that we do the same to; on our side rdsverbs
// and perfserver do so. Commands of package peer run them all. Everything such a kernel says is
// watched: an oops, a BUG or a warning on its console fails the test.
//
// # What is needed
//
// The tests need root, Linux and, of Debian, the packages that test/run.sh lists, and
// skip with one line that names what is missing. Nothing leaves the namespace,
// and nothing of it outlives the run. A failure prints the end of the guest's
// console, of the node's log and of what programs printed.
//
// An emulated machine is 10 to 50 times slower than its host: time limits are
// tens of seconds, and speed is not judged here.
package interop
