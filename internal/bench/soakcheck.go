package bench

import (
	"errors"
	"fmt"
)

// soakSums is what the journals say of the shared word of one life of a server socket.
type soakSums struct {
	begun, done, refused, top uint64
	known                     bool   // the fields below are known: the life had got as far as to have a word
	exact                     bool   // value is what there was at the end
	value                     uint64 // value of the word, at the end or when it was last looked at
}

// flowID is a flow between two sockets in one life of the client.
type flowID struct {
	client, server int
	life           uint64
}

// soakCheck compares the journals: each message that is missing has a reason, and every
// addition was done once.
type soakCheck struct {
	lost map[flowID]map[uint64][2]uint64 // reasons, and the life they were sent to, by number
	sums map[flowKey]*soakSums           // sums of the lives of server sockets
	acct account
}

func newSoakCheck() *soakCheck {
	return &soakCheck{lost: map[flowID]map[uint64][2]uint64{}, sums: map[flowKey]*soakSums{}}
}

func (c *soakCheck) sum(socket int, life uint64) *soakSums {
	key := flowKey{uint32(socket), life}
	s := c.sums[key]
	if s == nil {
		s = &soakSums{}
		c.sums[key] = s
	}
	return s
}

// client takes the journal of a client socket, which may have been killed at any point.
func (c *soakCheck) client(socket, lanes int, j *journal) error {
	if err := j.died(lanes); err != nil {
		return err
	}
	c.acct.add(j.account())
	j.records(recordLost, func(r record) {
		id := flowID{socket, int(r.at(2)), r.at(3)}
		if c.lost[id] == nil {
			c.lost[id] = map[uint64][2]uint64{}
		}
		c.lost[id][r.at(4)] = [2]uint64{r.at(1), r.at(5)}
	})
	j.records(recordAdds, func(r record) {
		s := c.sum(int(r.at(1)), r.at(2))
		s.begun, s.done, s.refused, s.top = s.begun+r.at(3), s.done+r.at(4), s.refused+r.at(6), max(s.top, r.at(5))
	})
	return nil
}

// server takes the journal of a server socket, after those of all clients. exact says
// that the words are those that peers have added to, not what was seen of them.
func (c *soakCheck) server(socket int, j *journal, exact bool) error {
	a := j.account()
	a.Messages = 0 // the clients count messages
	c.acct.add(a)
	var errs []error
	j.records(recordGap, func(r record) {
		id := flowID{int(r.at(1)), socket, r.at(2)}
		for n := r.at(3); n < r.at(4) && len(errs) < 10; n++ {
			switch why := c.lost[id][n]; {
			case why[0] == 0:
				errs = append(errs, fmt.Errorf("verify: message %d of client socket %d, life %#x, to socket %d is lost", n, id.client, id.life, socket))
			case why[0] == lostVoid && why[1] >= r.at(5): // the message was sent to the life that has not got it
				errs = append(errs, fmt.Errorf("verify: message %d of client socket %d, life %#x, to socket %d is lost, with success", n, id.client, id.life, socket))
			}
		}
	})
	j.records(recordLife, func(r record) {
		s := c.sum(socket, r.at(1))
		s.known, s.value, s.exact = true, r.at(2), exact || r.at(3) != 0
	})
	return errors.Join(errs...)
}

// additions checks every shared word.
func (c *soakCheck) additions() error {
	var errs []error
	for key, s := range c.sums {
		most := s.begun - s.refused
		bad := func(what string, n, least uint64) {
			errs = append(errs, fmt.Errorf("verify: %s of server socket %d in life %#x is %d, and should be %d to %d", what, key.socket, key.life, n, least, most))
		}
		switch {
		case s.exact && (s.value < s.done || s.value > most):
			bad("the sum", s.value, s.done)
		case s.value > most:
			bad("a sum", s.value, 0)
		case s.top > most:
			bad("a word found", s.top, 0)
		case s.top < s.done:
			bad("the largest word found", s.top, s.done)
		case !s.known && s.begun > 0:
			errs = append(errs, fmt.Errorf("verify: server socket %d has not had a life %#x", key.socket, key.life))
		}
	}
	return errors.Join(errs...)
}
