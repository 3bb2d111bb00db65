// Package conformance is one suite of tests for every provider of package rds.
//
// A socket must behave the same whether it is a Node's, one of rdsd's or the
// kernel's: same results, same errnos. Run runs every case against a provider,
// through the public API alone. Where a provider cannot do the same, the table
// Differences says so, and docs/PROTOCOL.md says it to users; a difference that
// is in neither is a failure, and so is one that does not exist any more.
//
// A case gets a Setup of its own and releases what it takes. Cases of one
// provider run side by side unless the caller is short of processors.
//
// The kernel's cases need a kernel with RDS: test/interop runs this package's
// own test program in a virtual machine.
//
// # Example
//
//	conformance.Run(t, rds.ProviderNode, func(t *testing.T) conformance.Setup {
//		return conformance.Setup{Near: n1, Far: n2, NearAddr: a1, FarAddr: a2, Nowhere: a3, Foreign: a4}
//	})
package conformance
