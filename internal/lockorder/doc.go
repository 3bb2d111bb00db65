// Package lockorder has mutexes whose order is checked against docs/LOCKING.md.
//
// Without the build tag invariants they are the mutexes of package sync, under another name.
// With the tag, on amd64, each Lock looks at the locks that its goroutine holds. A lock that the
// page does not allow behind one of those panics at once, with both names and both stacks; so
// does a lock that is not on the page.
//
// The race detector alone does not switch the checks on, unlike those of internal/invariants. With
// both, the detector does not see how the checks synchronise, so they hide no race from it.
//
// The type argument names the lock:
//
//	type Driver struct {
//		mu lockorder.Mutex[Driver] // "driver.Driver.mu"
//	}
//
// A struct that has several locks needs a type for each:
//
//	type Node struct {
//		Mu     lockorder.RWMutex[nodeMu]   // "node.Node.Mu"
//		opened lockorder.Mutex[nodeOpened] // "node.Node.opened"
//	}
//
//	type (
//		nodeMu     *Node
//		nodeOpened *Node
//	)
package lockorder
