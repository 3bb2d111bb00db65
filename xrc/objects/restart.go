package objects

import "time"

// maxRestartShift bounds the wait between two restarts: 64 times the first one.
const maxRestartShift = 6

// Restart throws away what set-up has done so far, after a peer has answered
// StatusNotReady: the initiator is in StateReset, under a new generation, and
// everything begins anew after the time returned. That doubles with each restart
// and is random by half, so that many processes that lost the same target do not
// all come back at once. ErrRestarts, and nothing changed, after Config.Restarts
// of them; Attach, which is success, begins the count anew.
func (i *Initiator) Restart() (time.Duration, error) {
	i.dev.mu.Lock()
	defer i.dev.unlock()
	c := &i.dev.config
	switch {
	case i.dead:
		return 0, ErrForeign
	case i.restarts >= c.Restarts:
		return 0, ErrRestarts
	}
	wait := c.RestartWait << min(i.restarts, maxRestartShift)
	i.restarts++
	i.resetLocked()
	return wait - time.Duration(i.dev.rand.Int64N(int64(wait/2)+1)), nil
}
