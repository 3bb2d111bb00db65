package rds

// showWaits puts what senders wait for into the cell, for the daemon's reports.
func (h *half) showWaits(waits []senderWait) {
	for i, w := range h.cell.Waits {
		if i >= len(waits) {
			w.Clear()
			continue
		}
		for code, cause := range waitCauses {
			if e := &waits[i]; cause == e.cause {
				w.Set(code, e.senders, e.peer, e.port, e.since.UnixNano())
			}
		}
	}
}
