// Package ebpf lets programs in the Linux kernel help a node: they turn strangers away before
// TCP answers them, measure what only the kernel sees, make faults for tests, and share one
// listening socket among many addresses. Nothing else in this module needs them. Without
// privilege, on an old kernel or another system, each constructor says in its error what is
// missing, and a node does the same without the kernel's help, slower.
//
// [Probe] tells which features this kernel has and this process may use. [LoadAdmission]
// filters connections of strangers; [OpenAdmission] changes the filter's list and needs no
// capability. [LoadTelemetry] measures connections. [LoadHandover] steers connections for many
// addresses to one listener. [NewFault] drops, duplicates and corrupts packets. [NewWakeups]
// measures how threads wait for a processor.
//
// # Lifetime
//
// What is loaded with a directory to pin in stays until it is unloaded from there, also when
// the process dies that has loaded it. What is not pinned ends with Close or with the process,
// however that ends.
//
// # Errors
//
// An error of a constructor is an [*Error]. errors.Is tells whether the kernel does not have
// the feature ([ErrNotSupported]) or the process may not use it ([ErrPermission]); the text
// names the feature, the first Linux that has it, and the capabilities that it takes.
package ebpf
