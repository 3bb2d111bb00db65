package daemon

// halt is one pause of the goroutines that serve applications.
type halt struct {
	resume  chan struct{}
	lingers bool // sockets that linger move, too
}

// serve begins to work for the session.
func (x *session) serve() {
	x.hear()
	x.beginWork(x.calls)
}

// beginWork runs f in a goroutine for which Bequeath waits.
func (x *session) beginWork(f func()) {
	x.working.Add(1)
	x.svc.work.Go(func() {
		defer x.working.Add(-1)
		f()
	})
}

// park has a goroutine of the session rest.
func (x *session) park(h *halt) {
	x.working.Add(-1)
	<-h.resume
	x.working.Add(1)
}
