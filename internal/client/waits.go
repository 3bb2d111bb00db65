package client

import "github.com/rds-go/rds/internal/socket"

// showWaits puts what senders wait for into the cell, for the daemon's reports.
func (h *half) showWaits(waits []socket.SenderWait) {
	for i, w := range h.cell.Waits {
		if i >= len(waits) {
			w.Clear()
			continue
		}
		for code, cause := range socket.WaitCauses {
			if e := &waits[i]; cause == e.Cause {
				w.Set(code, e.Senders, e.Peer, e.Port, e.Since.UnixNano())
			}
		}
	}
}
