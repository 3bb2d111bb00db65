// Package kernel has sockets of the Linux kernel's own RDS (AF_RDS) behind the interface that
// all providers' sockets have. Its methods may be called from any goroutine; payloads are
// copied into buffers of a pool of the Kernel's.
package kernel
