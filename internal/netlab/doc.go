// Package netlab makes hosts for tests: network namespaces with a link between them, and a BPF
// file system. Tests that need them skip, and say so, where the process is not root. All is
// gone when the test ends.
package netlab
