// Package bpf has the programs that run in the kernel: their C sources, the objects
// compiled of them, which are committed, and the Go code that embeds the objects. One
// source and one object for each feature of package ebpf.
//
// go generate compiles them anew; see gen.sh for what it needs. Nobody else needs a C
// compiler. The stage generate of make test fails if the objects are not those of the
// sources.
//
// The programs are written in the kernel's style, read kernel structs through the few
// types in types.h (CO-RE), and use no kernel function that is not in every kernel of the
// feature's minimum version. rds.h has what they share.
package bpf
