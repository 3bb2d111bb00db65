// Package transporttest is the contract of package transport as a test. Every
// transport runs it:
//
//	func TestContract(t *testing.T) {
//		transporttest.Run(t, func(t *testing.T) transporttest.Env { ... })
//	}
//
// It also has the pieces such tests are made of: Recorder, a handler that
// checks what it hears, and Sender, which numbers and fills messages so that a
// Recorder can tell whether they are right.
//
// # Concurrency
//
// A Recorder may be used by any goroutine, a Sender by one at a time.
//
// # Buffers
//
// A Recorder checks payloads in place and releases those it owns; it keeps none.
package transporttest
