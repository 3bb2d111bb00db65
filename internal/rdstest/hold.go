package rdstest

import "sync"

// Hold has a goroutine of its own hold a lock until release is called. The caller may then take
// locks that come before that one, as another process does.
func Hold(l sync.Locker) (release func()) {
	held, over, given := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(given)
		l.Lock()
		defer l.Unlock()
		close(held)
		<-over
	}()
	<-held
	return func() {
		close(over)
		<-given
	}
}
