// Command rdsfault makes faults in the TCP connections of this host, for tests: it drops,
// duplicates, corrupts and delays packets, silences connections for a time, and aborts them.
//
// The faults are made in the kernel by package ebpf and end with the command, however that
// ends.
package main
