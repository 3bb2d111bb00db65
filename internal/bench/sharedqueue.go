package bench

import "github.com/rds-go/rds/transport/iwarp"

// sharedQueue is a shared receive queue of the server, with a completion queue
// of its own.
type sharedQueue struct {
	*receiver
	cq *iwarp.CQ
}

// openQueue makes the queue of this number for n requests, and posts some of size
// bytes, whose memory is the region's from byte at on.
func (v *verbs) openQueue(number, at, size, n, posted int) (*iwarp.SRQ, *sharedQueue, error) {
	cq, err := v.dev.CreateCQ(n)
	if err != nil {
		return nil, nil, err
	}
	srq, err := v.pd.CreateSRQ(iwarp.SRQConfig{Number: uint32(number), CQ: cq, MaxReceive: n})
	if err != nil {
		return nil, nil, err
	}
	r, err := newReceiverBy(v, srq.PostReceive, at, size, posted)
	return srq, &sharedQueue{r, cq}, err
}

// queueTable finds queues; number n is at n-1. It does not change once there is
// a connection.
type queueTable []*iwarp.SRQ

// Find is that of iwarp.Queues.
func (t queueTable) Find(n uint32) *iwarp.SRQ {
	if n < 1 || n > uint32(len(t)) {
		return nil
	}
	return t[n-1]
}

// sending are the parameters of a client whose peer has queues.
func sending() *iwarp.SharedParams { return &iwarp.SharedParams{Send: true, Require: true} }

// taking are those of the server. Peers may do wrong as often as they like.
func taking(t queueTable) *iwarp.SharedParams {
	return &iwarp.SharedParams{Queues: t, Errors: -1, Require: true}
}
